// The loop of an agent through the TypeScript client; see loop.py.
//
// usage: loop.mjs COMMAND...   |   loop.mjs URL TOKEN      run from the folder in which the client is installed

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const installed = createRequire(process.cwd() + "/");
const load = (path) => import(pathToFileURL(installed.resolve(`@modelcontextprotocol/sdk/client/${path}.js`)));
const { Client } = await load("index");
const project = JSON.parse(readFileSync(new URL("project.json", import.meta.url), "utf8"));

const [first, ...rest] = process.argv.slice(2);
let transport;
if (first.startsWith("http")) {
    const { StreamableHTTPClientTransport } = await load("streamableHttp");
    transport = new StreamableHTTPClientTransport(new URL(first), {
        requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
    });
} else {
    const { StdioClientTransport } = await load("stdio");
    transport = new StdioClientTransport({ command: first, args: rest });
}
const client = new Client({ name: "loop", version: "1" });
await client.connect(transport);

const news = [];
const call = async (name, args) => {
    const result = await client.callTool({ name, arguments: args }, undefined, { onprogress: (p) => news.push(p) });
    assert(!result.isError, JSON.stringify(result));
    return result.structuredContent;
};

const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert(tools.includes("run_tests") && tools.includes("workspace_write"), tools.join());
const files = { ...project.files };
const saved = Object.entries(files).map(([path, content]) => ({ path, content }));
const { workspace_id } = await call("workspace_create", { files: saved });
const mended = [];
let report;
for (let round = 0; round < 7; round++) {
    report = await call("run_tests", { workspace_id });
    const bad = report.cases.filter((test) => test.status !== "passed");
    if (bad.length === 0) break;
    assert(report.verdict === "failed" && report.complete && report.consistent && bad[0].message);
    const [wrong, right] = project.fixes[bad[0].name];
    files["shop.py"] = files["shop.py"].replace(wrong, right);
    await call("workspace_write", { workspace_id, files: [{ path: "shop.py", content: files["shop.py"] }] });
    mended.push(bad[0].name);
}
assert.equal(report.verdict, "passed");
assert.equal(report.totals.passed, project.tests);
assert.deepEqual(mended.sort(), Object.keys(project.fixes).sort());
assert(news.length > 0, "no progress was reported");
await call("workspace_remove", { workspace_id });
await client.close();
console.log(`${mended.length} bugs mended`);
