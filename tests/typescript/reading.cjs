// Compares readings: a line with {script, erased} comes in, one with what the compiler makes of both goes out.
// `wanted` is the tree of the JavaScript that the compiler prints for the TypeScript in `script`; `got` is the tree of
// `erased`, read as JavaScript. Parentheses, empty statements and places are left out of both.

const ts = require(process.argv[2]);

const OPTIONS = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, removeComments: true };
// As scripts are run: at the top of a module the compiler has rules of its own for `await`
const run = (text) => `async function script() {${text}\n}`;
const EMPTY = new Set([ts.SyntaxKind.EmptyStatement, ts.SyntaxKind.SemicolonClassElement]);

function said(diagnostics) {
  return diagnostics.map((diagnostic) => ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n"));
}

function tree(node, file) {
  if (EMPTY.has(node.kind)) return "";
  if (ts.isParenthesizedExpression(node)) return tree(node.expression, file);
  const parts = [];
  node.forEachChild((child) => {
    parts.push(tree(child, file));
  });
  const flags = ts.isVariableDeclarationList(node) ? node.flags & ts.NodeFlags.BlockScoped : "";
  const operator = typeof node.operator === "number" ? ts.tokenToString(node.operator) : "";
  const text = node.getChildCount(file) === 0 ? node.getText(file) : "";
  return `(${[ts.SyntaxKind[node.kind], flags, operator, text, ...parts].filter(String).join(" ")})`;
}

function reading(text) {
  const file = ts.createSourceFile("read.js", text, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  return { tree: tree(file, file), wrong: said(file.parseDiagnostics) };
}

require("readline")
  .createInterface({ input: process.stdin })
  .on("line", (line) => {
    const { script, erased } = JSON.parse(line);
    const printed = ts.transpileModule(run(script), { compilerOptions: OPTIONS, reportDiagnostics: true });
    const answer = { wrong: said(printed.diagnostics), wanted: reading(printed.outputText), got: reading(run(erased)) };
    console.log(JSON.stringify(answer));
  });
