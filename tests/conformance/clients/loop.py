"""The loop of an agent through the Python client: a project is generated, saved and tested; each failure is read and
mended, until the tests pass.

usage: loop.py MODE COMMAND...   |   loop.py MODE URL TOKEN      where MODE is auto (the newest revision) or legacy
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

PROJECT = json.loads(Path(__file__).with_name("project.json").read_text())


async def call(client, tool, progress=None, **arguments):
    result = await client.call_tool(tool, arguments, progress_callback=progress)
    assert not result.is_error, result
    return result.structured_content


async def loop(client):
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"workspace_create", "workspace_write", "run_tests", "doctor"} <= tools, tools
    files = dict(PROJECT["files"])
    saved = [{"path": path, "content": text} for path, text in files.items()]
    workspace = (await call(client, "workspace_create", files=saved))["workspace_id"]
    news = []

    async def progress(done, total, message):
        news.append((done, total, message))

    mended = []
    for _ in range(len(PROJECT["fixes"]) + 2):
        report = await call(client, "run_tests", progress, workspace_id=workspace)
        bad = [case for case in report["cases"] if case["status"] != "passed"]
        if not bad:
            break
        assert report["verdict"] == "failed" and report["complete"] and report["consistent"], report
        assert bad[0]["message"] and bad[0]["line"], bad[0]
        wrong, right = PROJECT["fixes"][bad[0]["name"]]
        files["shop.py"] = files["shop.py"].replace(wrong, right)
        await call(client, "workspace_write", workspace_id=workspace, files=[{"path": "shop.py", "content": files["shop.py"]}])
        read = await call(client, "workspace_read", workspace_id=workspace, path="shop.py")
        assert read["text"] == files["shop.py"], read
        mended.append(bad[0]["name"])
    assert report["verdict"] == "passed" and report["totals"]["passed"] == PROJECT["tests"], report
    assert sorted(mended) == sorted(PROJECT["fixes"]), mended
    assert news, "no progress was reported"
    await call(client, "workspace_remove", workspace_id=workspace)
    print(f"{len(mended)} bugs mended over {client.protocol_version}")


async def main(mode, *server):
    if server[0].startswith("http"):
        url, token = server
        async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                await loop(client)
    else:
        async with Client(StdioServerParameters(command=server[0], args=list(server[1:])), mode=mode) as client:
            await loop(client)


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 240))
