"""A stand-in for the models that coding agents talk to: it asks for one call of run_code, or for the given ones one after the other, looks at what
comes back, and ends.

model.py PORT_FILE ANSWER_FILE [CALLS]

CALLS is JSON, [[SERVER, TOOL, ARGUMENTS], …]. In ARGUMENTS, @session_id@ stands for the one that an earlier answer named.

Speaks as much of the Messages API of Anthropic and of the Responses API of OpenAI as Claude Code and Codex use, on a port of the
loopback interface that it writes to PORT_FILE. What the tools answered, as the agent passed it on, comes to ANSWER_FILE.
"""

import http.server
import json
import os
import re
import sys
import time

CALLS = [["hotcell", "run_code", {"language": "python", "code": "print(6 * 7)"}]]
if len(sys.argv) > 3:
    CALLS = json.loads(sys.argv[3])


# Number of requests in which a tool may still be missing.
MAX_WAITS = 100


def wire(call):
    return f"mcp__{call[0]}__{call[1]}"


def plain(name):
    return re.sub("[^a-z0-9]", "_", name.lower())


def listed(tools, call):
    """How a client of the Responses API names the tool of a call: alone, or in a namespace of its server."""
    for tool in tools:
        if tool.get("type") == "namespace" and plain(call[0]) in plain(named(tool)):
            names = [named(inner) for inner in tool.get("tools", [])]
            if name := next((name for name in names if plain(name) == plain(call[1])), None):
                return {"name": name, "namespace": named(tool)}
        elif plain(named(tool)) == plain(wire(call)):
            return {"name": named(tool)}
    return None


def filled(call, results):
    """The arguments of a call as JSON, with the session that an answer named; answers are JSON in text in JSON."""
    text = json.dumps(call[2])
    found = re.search(r'session_id[\\\\]*":\s*[\\\\]*"([^"\\\\]+)', json.dumps(results))
    return text.replace("@session_id@", found[1]) if found else text


def named(tool):
    return tool.get("name") or ""


def events(*all_of_them):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in all_of_them)


def messages(asked):
    """https://docs.claude.com/en/api/messages-streaming"""
    parts = [part for one in asked["messages"] if isinstance(one["content"], list) for part in one["content"]]
    results = [part for part in parts if part.get("type") == "tool_result"]
    # Requests for titles and the like have no tools.
    call = CALLS[len(results)] if len(results) < len(CALLS) else None
    call = call if call and any(named(tool) == wire(call) for tool in asked.get("tools", [])) else None
    if call:
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": wire(call), "input": {}}
        delta = {"type": "input_json_delta", "partial_json": filled(call, results)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "finished"}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.get("model"), "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    stop = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    return results, events(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    )


def responses(asked):
    """https://platform.openai.com/docs/api-reference/responses-streaming"""
    outputs = [item for item in asked["input"] if item.get("type") == "function_call_output"]
    results = [item for item in outputs if item["call_id"].startswith("c")]
    call = CALLS[len(results)] if len(results) < len(CALLS) else None
    if not call:
        item = {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": "finished"}]}
    elif found := listed(asked.get("tools", []), call):
        number = len(results)
        item = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "arguments": filled(call, results)} | found
    else:
        # The client asks before its servers have begun; a call of a tool that it does not have brings the next request, with the tools of then.
        if len(outputs) > MAX_WAITS:
            raise SystemExit(f"there is no {wire(call)} among the tools")
        time.sleep(0.5)
        number = len(outputs)
        item = {"type": "function_call", "id": f"w{number}", "call_id": f"w{number}", "name": "wait", "arguments": "{}"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return results, events(
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
    )


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, text, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.answer('{"data":[],"models":[]}', "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.split("?")[0]
        speaks = {"/v1/messages": messages, "/v1/responses": responses}.get(path)
        if not speaks:
            return self.answer("{}", "application/json")
        results, text = speaks(json.loads(body))
        if results:
            with open(sys.argv[2], "w") as file:
                json.dump(results, file)
        self.answer(text, "text/event-stream")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(server.server_port))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
