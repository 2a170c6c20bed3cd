import secrets
import string

import aiosqlite
from aiohttp import web

ALPHABET = string.ascii_letters + string.digits
routes = web.RouteTableDef()


async def init_db(app):
    app["db"] = await aiosqlite.connect("urls.db")
    await app["db"].execute(
        "CREATE TABLE IF NOT EXISTS urls (code TEXT PRIMARY KEY, url TEXT NOT NULL, hits INTEGER DEFAULT 0)"
    )
    yield
    await app["db"].close()


@routes.post("/shorten")
async def shorten(request):
    try:
        url = (await request.json())["url"]
    except (ValueError, KeyError):
        raise web.HTTPBadRequest(text="expected JSON with a url")
    if not url.startswith(("http://", "https://")):
        raise web.HTTPUnprocessableEntity(text="only http(s) urls")
    db = request.app["db"]
    while True:
        code = "".join(secrets.choice(ALPHABET) for _ in range(6))
        try:
            await db.execute("INSERT INTO urls (code, url) VALUES (?, ?)", (code, url))
            await db.commit()
            break
        except aiosqlite.IntegrityError:
            continue
    return web.json_response({"short": str(request.url.with_path(f"/{code}"))}, status=201)


@routes.get("/{code}")
async def follow(request):
    db = request.app["db"]
    code = request.match_info["code"]
    async with db.execute("SELECT url FROM urls WHERE code = ?", (code,)) as cur:
        row = await cur.fetchone()
    if row is None:
        raise web.HTTPNotFound()
    await db.execute("UPDATE urls SET hits = hits + 1 WHERE code = ?", (code,))
    await db.commit()
    raise web.HTTPFound(row[0])


def main():
    app = web.Application()
    app.add_routes(routes)
    app.cleanup_ctx.append(init_db)
    web.run_app(app, port=8080)


if __name__ == "__main__":
    main()
