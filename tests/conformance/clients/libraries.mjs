// Every tool of hotcell, called through a client library with good arguments, and a wrong one that must come back as words.
//
// usage: node libraries.mjs LIBRARY FOLDER COMMAND...    LIBRARY is one of those below; FOLDER has node_modules with it
import { strict as assert } from 'node:assert';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [library, folder, command, ...args] = process.argv.slice(2);
const here = createRequire(`${folder}/x.js`);
const load = (name) => import(pathToFileURL(here.resolve(name)));
const CALLS = JSON.parse(readFileSync(new URL('calls.json', import.meta.url)));
const WRONG = ['run_code', { language: 'cobol', code: 'x' }];

let seen = '';
// Names that earlier answers gave.
function fill(given) {
  let text = JSON.stringify(given);
  for (const [mark, form, at] of [['$WS', /ws_[0-9a-f]{32}/g, 0], ['$RUN', /run_[0-9a-f]{32}/g, -1]]) {
    const found = seen.match(form)?.at(at);
    if (found) text = text.replaceAll(mark, found);
  }
  return JSON.parse(text);
}

// Calls all tools; `call` gives what the model would read.
async function every(names, call) {
  for (const { tool, arguments: given } of CALLS) {
    assert(names.includes(tool), tool);
    const read = JSON.stringify(await call(tool, fill(given)));
    seen += read;
    assert(!read.includes('there is no '), `${tool}: ${read}`);
    if (tool === 'run_code') assert(read.includes('42'), read);
    if (tool === 'run_tests') for (const part of ['test_f', '1 != 2', 'assertEqual', 'SEEN']) assert(read.includes(part), read);
  }
  const read = await Promise.resolve(call(...WRONG)).then(JSON.stringify, String);
  // One that validates before it sends has words of its own.
  assert(/language|python|did not match expected schema/.test(read), read);
  console.log(`${CALLS.length} tools called`);
}

// Whether a schema as the library makes it says which languages there are.
function hasAllValues(schema) {
  const text = JSON.stringify(schema);
  assert(['python', 'javascript', 'postgresql'].every((word) => text.includes(word)), text);
}

const LIBRARIES = {
  async 'mcp-sdk'() {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/client/stdio.js');
    const client = new Client({ name: 'libraries', version: '1' });
    await client.connect(new StdioClientTransport({ command, args }));
    // Compiles each output schema, by which answers are validated from here on.
    const { tools } = await client.listTools();
    await every(tools.map((tool) => tool.name), async (name, given) => {
      const answer = await client.callTool({ name, arguments: given });
      assert(answer.isError || answer.structuredContent || name === 'workspace_image', name);
      return answer;
    });
    await client.close();
  },

  async 'langchain-js'() {
    const { MultiServerMCPClient } = await load('@langchain/mcp-adapters');
    const { convertToOpenAITool } = await load('@langchain/core/utils/function_calling');
    const client = new MultiServerMCPClient({ mcpServers: { hotcell: { transport: 'stdio', command, args } } });
    const tools = new Map((await client.getTools()).map((tool) => [tool.name, tool]));
    hasAllValues(convertToOpenAITool(tools.get('run_code')));
    // As a model of OpenAI's is told them, with and without strict.
    for (const tool of tools.values()) for (const strict of [true, false]) convertToOpenAITool(tool, { strict });
    await every([...tools.keys()], (name, given) =>
      tools.get(name).invoke({ type: 'tool_call', id: '1', name, args: given }));
    await client.close();
  },

  async 'ai-sdk'() {
    const { createMCPClient } = await load('@ai-sdk/mcp');
    const { Experimental_StdioMCPTransport } = await load('@ai-sdk/mcp/mcp-stdio');
    const { asSchema } = await load('ai');
    const client = await createMCPClient({ transport: new Experimental_StdioMCPTransport({ command, args }) });
    const tools = await client.tools();
    hasAllValues(await asSchema(tools.run_code.inputSchema).jsonSchema);
    await every(Object.keys(tools), async (name, given) => {
      const valid = await asSchema(tools[name].inputSchema).validate?.(given);
      assert(valid?.success ?? true, String(valid?.error));
      const output = await tools[name].execute(given, { toolCallId: '1', messages: [] });
      return tools[name].toModelOutput({ toolCallId: '1', input: given, output });
    });
    await client.close();
  },
};

LIBRARIES.genkit = async () => {
  const { genkit } = await load('genkit');
  const { createMcpHost } = await load('@genkit-ai/mcp');
  const ai = genkit({});
  const host = createMcpHost({ name: 'libraries', mcpServers: { hotcell: { command, args } } });
  await host.ready();
  const tools = new Map((await host.getActiveTools(ai)).map((tool) => [tool.__action.name.split('/').pop(), tool]));
  hasAllValues(tools.get('run_code').__action.inputJsonSchema);
  // It validates by the schema before it sends, and reads the structure.
  await every([...tools.keys()], (name, given) => tools.get(name)(given));
  await host.close();
};

const late = setTimeout(() => { console.error('no end after 240 s'); process.exit(1); }, 240_000);
await LIBRARIES[library]();
clearTimeout(late);
