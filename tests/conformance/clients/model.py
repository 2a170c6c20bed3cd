"""A stand-in for the models that coding agents talk to: it asks for one call of run_code, looks at what comes back, and ends.

model.py PORT_FILE ANSWER_FILE

Speaks as much of the Messages API of Anthropic and of the Responses API of OpenAI as Claude Code and Codex use, on a port of the
loopback interface that it writes to PORT_FILE. What hotcell's tool answered, as the agent passed it on, comes to ANSWER_FILE.
"""

import http.server
import json
import os
import sys

ARGUMENTS = json.dumps({"language": "python", "code": "print(6 * 7)"})
TOOL = "mcp__hotcell__run_code"


def named(tool):
    return tool.get("name") or ""


def events(*all_of_them):
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in all_of_them)


def messages(asked):
    """https://docs.claude.com/en/api/messages-streaming"""
    last = asked["messages"][-1]["content"]
    results = [part for part in last if part.get("type") == "tool_result"] if isinstance(last, list) else []
    call = not results and any(named(tool) == TOOL for tool in asked.get("tools", []))
    if call:
        block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": ARGUMENTS}
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
    results = [item for item in asked["input"] if item.get("type") == "function_call_output"]
    spaces = [tool for tool in asked.get("tools", []) if tool.get("type") == "namespace" and "hotcell" in named(tool)]
    if results:
        item = {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": "finished"}]}
    else:
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": TOOL, "arguments": ARGUMENTS}
        if spaces:
            item |= {"name": "run_code", "namespace": named(spaces[0])}
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
