import asyncio
import json
import os
import signal

import asyncpg

SCHEMA = """
CREATE TABLE IF NOT EXISTS emails (
    id serial PRIMARY KEY,
    recipient text NOT NULL,
    state text NOT NULL DEFAULT 'new'
);
CREATE OR REPLACE FUNCTION notify_email() RETURNS trigger AS $$
BEGIN
    PERFORM pg_notify('emails', json_build_object('id', NEW.id)::text);
    RETURN NEW;
END $$ LANGUAGE plpgsql;
DROP TRIGGER IF EXISTS emails_notify ON emails;
CREATE TRIGGER emails_notify AFTER INSERT ON emails FOR EACH ROW EXECUTE FUNCTION notify_email();
"""


async def handle(pool, email_id):
    async with pool.acquire() as conn, conn.transaction():
        row = await conn.fetchrow(
            "SELECT * FROM emails WHERE id = $1 AND state = 'new' FOR UPDATE SKIP LOCKED", email_id
        )
        if row is None:
            return
        print("sending to", row["recipient"])
        await asyncio.sleep(0.1)
        await conn.execute("UPDATE emails SET state = 'sent' WHERE id = $1", email_id)


async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop.set)
    queue = asyncio.Queue()
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=2, max_size=10) as pool:
        async with pool.acquire() as listener:
            await listener.execute(SCHEMA)
            await listener.add_listener("emails", lambda c, pid, ch, payload: queue.put_nowait(json.loads(payload)["id"]))
            for row in await listener.fetch("SELECT id FROM emails WHERE state = 'new'"):
                queue.put_nowait(row["id"])

            async def worker():
                while True:
                    email_id = await queue.get()
                    try:
                        await handle(pool, email_id)
                    except Exception as e:
                        print("failed", email_id, e)

            workers = [asyncio.create_task(worker()) for _ in range(3)]
            await stop.wait()
            for w in workers:
                w.cancel()


if __name__ == "__main__":
    asyncio.run(main())
