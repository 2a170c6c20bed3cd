// What a model pays for answers, in tokens of o200k: of the text and of the structure each.
//
// usage: tokens.mjs COMMAND...      run from the folder in which gpt-tokenizer is installed; COMMAND is a server on standard input

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const installed = createRequire(process.cwd() + "/");
const { encode } = installed("gpt-tokenizer/encoding/o200k_base");
const project = JSON.parse(readFileSync(new URL("project.json", import.meta.url), "utf8"));

const [command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
createInterface({ input: server.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
});
let id = 0;
const request = (method, params) =>
    new Promise((resolve) => {
        waiting.set(++id, resolve);
        server.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    });
await request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "tokens", version: "1" } });
server.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');

const count = (text) => encode(text).length;
let failed = 0;
// The output itself is what the caller asked for: it is not counted.
async function measure(what, most, tool, params, output = "") {
    const { result } = await request("tools/call", { name: tool, arguments: params });
    assert(!result.isError, JSON.stringify(result));
    const texts = result.content.filter((block) => block.type === "text");
    assert.equal(texts.length, 1, "one block of text");
    // Behind its bars in the text, as JSON has it in the structure.
    const barred = output.replace(/^(?=.)/gm, "| ");
    const text = count(texts[0].text) - (output ? count(barred) : 0);
    const structure = count(JSON.stringify(result.structuredContent)) - (output ? count(JSON.stringify(output)) : 0);
    const good = text <= most && structure <= most;
    failed += good ? 0 : 1;
    console.log(`${good ? "ok  " : "MORE"} ${what}: text ${text}, structure ${structure}, at most ${most}`);
    if (process.env.SHOW) console.log(texts[0].text, "\n", JSON.stringify(result.structuredContent, null, 1));
    return result.structuredContent;
}

await measure("a success", 80, "run_code", { language: "python", code: "print(6 * 7)" }, "42\n");
await measure("a success that prints to both", 80, "run_code", { language: "bash", code: "seq 50; seq 50 >&2" }, Array(2).fill([...Array(50).keys()].map((n) => n + 1 + "\n").join("")).join(""));
await measure("a program", 80, "run_command", { argv: ["echo", "hello"] }, "hello\n");
const files = Object.entries(project.files).map(([path, content]) => ({ path, content }));
await measure("five failing tests", 500, "run_tests", { files });
let fixed = files;
for (const [wrong, right] of Object.values(project.fixes))
    fixed = fixed.map(({ path, content }) => ({ path, content: path === "shop.py" ? content.replace(wrong, right) : content }));
await measure("six passing tests", 80, "run_tests", { files: fixed });
const { workspace_id } = await measure("a workspace", 120, "workspace_create", { files });
await measure("an edit", 120, "workspace_edit", { workspace_id, edits: [{ path: "shop.py", old: "prices[1:]", new: "prices" }] });
await measure("four failing tests of a workspace", 500, "run_tests", { workspace_id });

server.stdin.end();
// The lists of tools with both schemas, by toolset.
async function listed(toolset) {
    const other = spawn(command, [...args, "--toolsets", toolset], { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: other.stdout })[Symbol.asyncIterator]();
    const ask = async (id, method, params) => {
        other.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
        return JSON.parse((await lines.next()).value).result;
    };
    const { instructions } = await ask(1, "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "tokens", version: "1" } });
    other.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    const { tools } = await ask(2, "tools/list", {});
    other.stdin.end();
    return { instructions, tools };
}
function told(what, good, numbers) {
    failed += good ? 0 : 1;
    console.log(`${good ? "ok  " : "MORE"} ${what}: ${numbers}`);
}
// Toolsets that are off by default and grow: each of their tools has a limit of its own.
const OWN_LIMIT = ["sessions", "terminal", "agent-service"];
const own = (await listed(OWN_LIMIT.join(","))).tools;
for (const tool of own) {
    const size = count(JSON.stringify(tool));
    if (size > 250) told(tool.name, false, `${size}, at most 250`);
}
told(`each tool of ${OWN_LIMIT.join(", ")}`, own.length > 0, `${own.length} tools, ${count(JSON.stringify(own))}, each at most 250`);
const names = new Set(own.map((tool) => tool.name));
for (const [toolset, most] of [["default", 2500], ["all", 8000]]) {
    const { instructions, tools } = await listed(toolset);
    const others = count(JSON.stringify(tools.filter((tool) => !names.has(tool.name))));
    const good = others <= most && count(instructions) <= 150;
    told(`tools/list of ${toolset}, without those`, good, `${tools.length} tools, ${others}, at most ${most}; with those ${count(JSON.stringify(tools))}; instructions ${count(instructions)}, at most 150`);
}
if (failed) process.exitCode = 1;
