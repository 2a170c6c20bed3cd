"""Every tool of hotcell, called through a client library with good arguments, and a wrong one that must come back as words.

usage: libraries.py LIBRARY COMMAND...      LIBRARY is one of those below; COMMAND is a server on standard input
"""

import asyncio
import json
import os
import pathlib
import re
import sys

CALLS = [(call["tool"], call["arguments"]) for call in json.loads((pathlib.Path(__file__).parent / "calls.json").read_text())]
WRONG = ("run_code", {"language": "cobol", "code": "x"})


def quiet():
    """No library tells anybody that it runs here."""
    os.environ.update(
        CREWAI_TELEMETRY_OPT_OUT="1", OTEL_SDK_DISABLED="true", MCP_USE_ANONYMIZED_TELEMETRY="false", OPENAI_AGENTS_DISABLE_TRACING="1",
        AGNO_TELEMETRY="false", HAYSTACK_TELEMETRY_ENABLED="False"
    )


class Handles:
    """Names that earlier answers gave."""

    def __init__(self):
        self.seen = ""

    def fill(self, arguments):
        text = json.dumps(arguments)
        for mark, form, which in (("$WS", "ws_[0-9a-f]{32}", 0), ("$RUN", "run_[0-9a-f]{32}", -1)):
            found = re.findall(form, self.seen)
            if found:
                text = text.replace(mark, found[which])
        return json.loads(text)


def null_for_the_rest(schema, arguments):
    """What a model sends whose schema was made strict: every property, null for what it leaves out."""
    for name, property in schema.get("properties", {}).items():
        given = arguments.setdefault(name, None)
        for item in given if isinstance(given, list) else [given]:
            if isinstance(item, dict):
                null_for_the_rest(property.get("items", property), item)
    return arguments


async def every(names, call):
    """Calls all tools; `call` gives what the model would read."""
    handles, told = Handles(), []
    assert {name for name, _ in CALLS} <= set(names), names
    for name, arguments in CALLS:
        read = str(await call(name, handles.fill(arguments)))
        handles.seen += read
        assert "there is no " not in read, f"{name}: {read}"
        if name == "run_code":
            assert "42" in read, read
        if name == "run_tests":
            assert all(word in read for word in ("test_f", "1 != 2", "assertEqual", "SEEN")), read
        told.append(f"{name} {len(read)}")
    try:
        read = str(await call(*WRONG))
    except Exception as error:  # frameworks differ in how they tell
        read = str(error)
    # One that validates before it sends names the field or its values.
    assert "language" in read or "python" in read, read
    print(f"{len(told)} tools called: {', '.join(told)}")


async def openai_agents(server, strict):
    from agents.mcp import MCPServerStdio, MCPUtil

    async with MCPServerStdio(server, client_session_timeout_seconds=60) as it:
        tools = await it.list_tools()
        made = [MCPUtil.to_function_tool(tool, it, convert_schemas_to_strict=strict) for tool in tools]
        if strict:
            lax = [tool.name for tool in made if not tool.strict_json_schema]
            # A mapping of any names, such as variables, has no strict form; what takes nothing needs none.
            assert set(lax) <= {"run_command", "quarantine_list", "session_list", "terminal_start", "doctor"}, lax
        by_name = {tool.name: tool for tool in tools}

        async def call(name, arguments):
            if strict:
                arguments = null_for_the_rest(by_name[name].model_dump(by_alias=True)["inputSchema"], arguments)
            return await MCPUtil.invoke_mcp_tool(it, by_name[name], None, json.dumps(arguments))

        await every(by_name, call)


async def langchain(server):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    # A server for each call, as it does by default.
    client = MultiServerMCPClient({"hotcell": {"transport": "stdio", **server}})
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def call(name, arguments):
        return (await tools[name].ainvoke({"name": name, "args": arguments, "id": "1", "type": "tool_call"})).content

    await every(tools, call)


async def smolagents(server):
    from mcp import StdioServerParameters
    from smolagents import ToolCollection

    with ToolCollection.from_mcp(StdioServerParameters(**server), trust_remote_code=True, structured_output=False) as all_tools:
        tools = {tool.name: tool for tool in all_tools.tools}

        async def call(name, arguments):
            return tools[name](**arguments)

        await every(tools, call)


async def google_genai(server):
    from google.genai import _mcp_utils
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async with stdio_client(StdioServerParameters(**server)) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        made = {tool.name: _mcp_utils.mcp_to_gemini_tool(tool) for tool in tools}
        assert len(made) == len(tools)

        async def call(name, arguments):
            result = await session.call_tool(name, arguments)
            return "\n".join(block.text for block in result.content if block.type == "text")

        await every(made, call)


def has_all_values(schema):
    """Whether a schema as the library makes it says which languages there are."""
    return all(word in json.dumps(schema) for word in ("python", "javascript", "postgresql"))


async def crewai(server):
    from crewai.utilities.agent_utils import convert_tools_to_openai_schema
    from crewai_tools import MCPServerAdapter
    from mcp import StdioServerParameters

    with MCPServerAdapter(StdioServerParameters(**server)) as all_tools:
        tools = {tool.name: tool for tool in all_tools}
        made, _, _ = convert_tools_to_openai_schema(list(all_tools))
        assert len(made) == len(tools)
        assert has_all_values(made)

        async def call(name, arguments):
            # It validates by a class that it made of the schema, and sends null for what is left out.
            return await asyncio.to_thread(tools[name].run, **arguments)

        await every(tools, call)


async def mcp_use(server):
    from mcp_use import MCPClient
    from mcp_use.agents.adapters import LangChainAdapter

    client = MCPClient({"mcpServers": {"hotcell": server}})
    tools = {tool.name: tool for tool in await LangChainAdapter().create_tools(client)}

    async def call(name, arguments):
        return await tools[name].ainvoke(arguments)

    await every(tools, call)
    await client.close_all_sessions()


async def llama_index(server):
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    client = BasicMCPClient(server["command"], args=server["args"], timeout=60)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client=client).to_tool_list_async()}
    assert has_all_values(tools["run_code"].metadata.to_openai_tool())
    for tool in tools.values():
        tool.metadata.to_openai_tool(skip_length_check=True)

    async def call(name, arguments):
        answer = await tools[name].acall(**arguments)
        return f"{answer.content} {answer.raw_output}"

    await every(tools, call)


async def autogen(server):
    from autogen_core import CancellationToken
    from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, mcp_server_tools

    params = StdioServerParams(**server, read_timeout_seconds=60)
    tools = {tool.name: tool for tool in await mcp_server_tools(params)}
    assert has_all_values([tool.schema for tool in tools.values()])

    async with McpWorkbench(params) as bench:
        assert has_all_values(await bench.list_tools())

        async def call(name, arguments):
            if name.startswith("workspace"):
                answer = await bench.call_tool(name, arguments)
                return answer.to_text()
            # A server for each call.
            return tools[name].return_value_as_string(await tools[name].run_json(arguments, CancellationToken()))

        await every(tools, call)


async def pydantic_ai(server):
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import RunContext
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
    from pydantic_ai.usage import RunUsage

    async with MCPToolset(StdioTransport(**server), tool_error_behavior="error") as toolset:
        context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        tools = await toolset.get_tools(context)
        for tool in tools.values():
            schema = tool.tool_def.parameters_json_schema
            GoogleJsonSchemaTransformer(schema).walk()
            for strict in (None, True):
                made = OpenAIJsonSchemaTransformer(schema, strict=strict).walk()
                assert tool.tool_def.name != "run_code" or has_all_values(made)

        async def call(name, arguments):
            arguments = null_for_the_rest(tools[name].tool_def.parameters_json_schema, arguments)
            valid = tools[name].args_validator.validate_python(arguments)
            return await toolset.call_tool(name, valid, context, tools[name])

        await every(tools, call)


async def google_adk(server):
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from mcp import StdioServerParameters

    toolset = McpToolset(
        connection_params=StdioConnectionParams(server_params=StdioServerParameters(**server), timeout=60)
    )
    tools = {tool.name: tool for tool in await toolset.get_tools()}
    assert has_all_values([tool._get_declaration().model_dump(mode="json") for tool in tools.values()])

    async def call(name, arguments):
        return await tools[name].run_async(args=arguments, tool_context=None)

    await every(tools, call)
    await toolset.close()


async def strands(server):
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client
    from strands.tools.mcp import MCPClient

    with MCPClient(lambda: stdio_client(StdioServerParameters(**server))) as client:
        tools = {tool.tool_name: tool for tool in client.list_tools_sync()}
        assert has_all_values(tools["run_code"].tool_spec)

        async def call(name, arguments):
            use = {"toolUseId": "1", "name": name, "input": arguments}
            events = [event async for event in tools[name].stream(use, {})]
            return events[-1]["tool_result"]["content"]

        await every(tools, call)


async def agno(server):
    from agno.tools.function import FunctionCall
    from agno.tools.mcp import MCPTools
    from mcp import StdioServerParameters

    async with MCPTools(server_params=StdioServerParameters(**server), timeout_seconds=60) as toolkit:
        tools = toolkit.functions
        assert has_all_values(tools["run_code"].to_dict())

        async def call(name, arguments):
            done = await FunctionCall(function=tools[name], arguments=arguments).aexecute()
            return f"{done.error or ''}{done.result.content}"

        await every(tools, call)


async def haystack(server):
    from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo

    toolset = MCPToolset(StdioServerInfo(**server), invocation_timeout=60, eager_connect=True)
    tools = {tool.name: tool for tool in toolset}
    assert has_all_values(tools["run_code"].tool_spec)

    async def call(name, arguments):
        return await asyncio.to_thread(tools[name].invoke, **arguments)

    await every(tools, call)
    toolset.close()


LIBRARIES = {
    "openai-agents": lambda server: openai_agents(server, False),
    "openai-agents-strict": lambda server: openai_agents(server, True),
    "langchain": langchain,
    "smolagents": smolagents,
    "google-genai": google_genai,
    "crewai": crewai,
    "mcp-use": mcp_use,
    "llama-index": llama_index,
    "autogen": autogen,
    "pydantic-ai": pydantic_ai,
    "google-adk": google_adk,
    "strands": strands,
    "agno": agno,
    "haystack": haystack,
}

if __name__ == "__main__":
    library, command, *rest = sys.argv[1:]
    quiet()
    asyncio.run(asyncio.wait_for(LIBRARIES[library]({"command": command, "args": rest}), 240))
