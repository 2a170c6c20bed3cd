import hashlib
import shutil
import tempfile
import uuid
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

app = FastAPI()
STAGING = Path(tempfile.gettempdir()) / "uploads"
FINAL = Path("storage")
STAGING.mkdir(exist_ok=True)
FINAL.mkdir(exist_ok=True)


class Start(BaseModel):
    filename: str
    chunks: int


class Finish(BaseModel):
    sha256: str


uploads: dict[str, Start] = {}


@app.post("/uploads")
def start(body: Start):
    uid = uuid.uuid4().hex
    uploads[uid] = body
    (STAGING / uid).mkdir()
    return {"upload_id": uid}


@app.put("/uploads/{uid}/{index}")
async def chunk(uid: str, index: int, request: Request):
    info = uploads.get(uid)
    if info is None or not 0 <= index < info.chunks:
        raise HTTPException(404)
    (STAGING / uid / f"{index:06d}").write_bytes(await request.body())
    return {"received": index}


@app.post("/uploads/{uid}/finish")
def finish(uid: str, body: Finish):
    info = uploads.get(uid)
    if info is None:
        raise HTTPException(404)
    parts = sorted((STAGING / uid).iterdir())
    if len(parts) != info.chunks:
        raise HTTPException(409, f"{len(parts)} of {info.chunks} chunks received")
    digest = hashlib.sha256()
    target = FINAL / f"{uid}_{Path(info.filename).name}"
    with target.open("wb") as out:
        for part in parts:
            data = part.read_bytes()
            digest.update(data)
            out.write(data)
    shutil.rmtree(STAGING / uid)
    del uploads[uid]
    if digest.hexdigest() != body.sha256.lower():
        target.unlink()
        raise HTTPException(422, "checksum mismatch")
    return {"path": target.name, "size": target.stat().st_size}
