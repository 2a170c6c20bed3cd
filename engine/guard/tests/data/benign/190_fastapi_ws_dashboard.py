import asyncio

import psutil
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from fastapi.responses import HTMLResponse

app = FastAPI()

HTML = """
<!doctype html>
<html><body>
<h1>CPU</h1><pre id="out"></pre>
<script>
  const ws = new WebSocket(`ws://${location.host}/ws`);
  const out = document.getElementById('out');
  ws.onmessage = (e) => {
    const d = JSON.parse(e.data);
    out.textContent = d.cpu.map((v, i) => `core ${i}: ${'#'.repeat(v / 2)} ${v}%`).join('\\n') + `\\nmem: ${d.mem}%`;
  };
  ws.onclose = () => (out.textContent += '\\n(disconnected)');
</script>
</body></html>
"""


@app.get("/", response_class=HTMLResponse)
async def index():
    return HTML


@app.websocket("/ws")
async def ws(websocket: WebSocket):
    await websocket.accept()
    try:
        while True:
            await websocket.send_json(
                {"cpu": psutil.cpu_percent(percpu=True), "mem": psutil.virtual_memory().percent}
            )
            await asyncio.sleep(1)
    except WebSocketDisconnect:
        pass


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(app, host="127.0.0.1", port=8000)
