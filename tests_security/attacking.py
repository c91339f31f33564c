"""An attack: the tools it has, the script that runs before it, and the secrets that it may never see."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from codecall.envelopes import ExecutionResult
from codecall.namespaces import Namespaces
from codecall.sandbox.agentscript.validator.names import NamespaceInfo
from codecall.sandbox.enclave import Enclave
from codecall.sandbox.languages import Language
from codecall.sandbox.worker import jail, syscalls

TOOLS = ("echo", "users:list", "fail", "secret:read", "big", "hostile")
"""What the server has."""
ALLOWED = (*(name for name in TOOLS if name != "secret:read"), "data://open/*", "hello")
"""What the attack may call, read and get."""

SPACES = Namespaces.from_tools((name, "") for name in TOOLS)

USERS = [
    {"id": "u1", "name": "Ada", "role": "owner"},
    {"id": "u2", "name": "Ben", "role": "member"},
    {"id": "u3", "name": "Cleo", "role": "member"},
]

# What a tool that a stranger controls might answer
HOSTILE_ANSWER = (
    """{
    "__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}, "then": "not a function",
    "toString": "x", "valueOf": null, "toJSON": "() => 1", "length": -1, "name": "</script><!--", "": "empty key",
    "code": "return eval('1')", "template": "${callTool('secret:read')}", "number": 1e308,
    "unicode": "\\u2028\\ud83d\\ude00", "deep": """
    + "[" * 40
    + "]" * 40
    + """, "text": "`); callTool('secret:read', {}); (`"
}"""
)


class Canaries:
    """Secrets, one for each place from which something may leak."""

    def __init__(self) -> None:
        self.environment = secrets.token_hex(16)
        """In an environment variable of this process, where the server would be."""
        self.file = secrets.token_hex(16)
        """In a file in the folder for temporary files."""
        self.script = secrets.token_hex(16)
        """In the text and the values of the previous script of the same worker."""
        self.tenant = secrets.token_hex(16)
        """In the context of that script, which another tenant sent."""
        self.tool = secrets.token_hex(16)
        """In the answer of a tool that the attack may not call."""

    def leaked(self, result: ExecutionResult) -> list[str]:
        """The places whose secret is anywhere in `result`."""
        error = None if result.error is None else vars(result.error)
        seen = json.dumps([result.envelope(), error, result.warnings], default=repr, ensure_ascii=False).casefold()
        return [place for place, secret in vars(self).items() if secret in seen or secret[::-1] in seen]

    async def plant(self, enclave: Enclave) -> None:
        """Run a script of another tenant, full of secrets, in the worker that the next script gets."""
        script = f"""
        const secret = {{ value: '{self.script}', text: `${{codecallContext.token}} {self.script}` }};
        const kept = [secret, new Map([[secret.value, secret]]), () => secret];
        class Keeper {{ static secret = secret.value; read() {{ return kept }} }}
        await callTool('echo', {{ secret: secret.value }});
        return kept.length + new Keeper().read().length;
        """
        context = {"tenant": "t2", "token": self.tenant}
        result = await enclave.execute(
            script, tool_handler=lambda name, arguments: arguments, context=context, config={"timeout_ms": 5_000}
        )
        assert result.value == 6, result.error


def find_spaces(names: Sequence[str]) -> dict[str, NamespaceInfo]:
    """What the guard hears of the server's namespaces."""
    return {name: NamespaceInfo(members={} if name in SPACES else None) for name in names}


async def attacked(
    enclave: Enclave,
    source: str,
    canaries: Canaries,
    *,
    limits: Mapping[str, object] | None = None,
    follows: bool = True,
    language: Language = "javascript",
) -> ExecutionResult:
    """The end of `source`, run with the tools and the context of every attack, right behind another tenant's script;
    with `follows=False` behind whatever there was."""

    def handler(name: str, arguments: dict[str, Any]) -> Any:
        match name:
            case "echo":
                return arguments
            case "users:list":
                return {"users": USERS}
            case "big":
                return "b" * 200_000
            case "hostile":
                return json.loads(HOSTILE_ANSWER)
            case "secret:read":
                return {"secret": canaries.tool}
            case _:
                raise RuntimeError("it failed")

    def read(uri: str) -> Any:
        return {"uri": uri} if uri.startswith("data://open/") else {"secret": canaries.tool}

    def render(name: str, arguments: dict[str, Any]) -> Any:
        content = json.dumps(arguments) if name == "hello" else canaries.tool
        return {"description": None, "messages": [{"role": "user", "content": content}]}

    schema = {"type": "object"}
    tools = [{"name": name, "description": f"Tool {name}", "inputSchema": schema} for name in TOOLS]
    if follows:
        await canaries.plant(enclave)
    return await enclave.execute(
        source,
        tool_handler=handler,
        resource_handler=read,
        prompt_handler=render,
        tools=tools,
        allowed_tools=ALLOWED,
        context={"tenant": "t1"},
        config=limits,
        language=language,
    )


def as_far_as_there_is_a_jail() -> dict[str, object]:
    """Preset values for this system: where a layer is missing, `locked_down` refuses to run; the rest has to hold."""
    try:
        jail.landlock_abi()
    except OSError:
        return {"require_jail": False}
    return {} if syscalls.MISSING is None else {"require_jail": False}
