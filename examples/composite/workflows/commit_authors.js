/*
---
name: commit_authors
description: Who has made the latest commits of a git repository, and how many
parameters:
  type: object
  properties:
    repo_path: { type: string, description: Path of the repository }
    commits: { type: integer, description: How many commits to read, default: 20 }
  required: [repo_path]
output:
  type: object
  properties:
    authors:
      type: array
      items:
        type: object
        properties: { name: { type: string }, commits: { type: integer }, latest: { type: string } }
        required: [name, commits, latest]
  required: [authors]
allowedTools: [git_git_log]
annotations: { readOnlyHint: true }
---
*/
const { repo_path, commits } = codecallContext;
const log = await callTool('git_git_log', { repo_path, max_count: commits });

// The server answers with text for people.
const authors = new Map();
for (const [, name, subject] of log.matchAll(/^Author: (.*)\nDate: .*\nMessage: (.*)$/gm)) {
  const known = authors.get(name) ?? { name, commits: 0, latest: subject };
  authors.set(name, { ...known, commits: known.commits + 1 });
}
return { authors: [...authors.values()].sort((a, b) => b.commits - a.commits) };
