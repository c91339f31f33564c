// Never-names: every name that leads to code made of strings, in every position a name can stand.
--- constructor as a member
return [].constructor; //! DisallowedMember Member
--- runs
const { users } = await callTool('users:list', {});
return users.length;
//= 3
--- fails
await callTool('fail', {});
//~ TOOL_EXECUTION_ERROR it failed
--- not allowed
await callTool('secret:read', {});
//~ ACCESS_DENIED
