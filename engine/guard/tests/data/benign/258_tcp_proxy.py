"""Logging TCP proxy for debugging protocols."""
import argparse
import asyncio
import itertools

counter = itertools.count(1)


def hexdump(data, width=16):
    for i in range(0, len(data), width):
        chunk = data[i:i + width]
        hexa = " ".join(f"{b:02x}" for b in chunk)
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in chunk)
        yield f"{i:06x}  {hexa:<{width * 3}} {text}"


async def pipe(reader, writer, label, verbose):
    total = 0
    try:
        while data := await reader.read(65536):
            total += len(data)
            print(f"{label} {len(data)} bytes")
            if verbose:
                print("\n".join(hexdump(data)))
            writer.write(data)
            await writer.drain()
    except ConnectionError as e:
        print(f"{label} {e}")
    finally:
        print(f"{label} closed after {total} bytes")
        writer.close()


async def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("listen_port", type=int)
    ap.add_argument("target", help="host:port")
    ap.add_argument("-v", "--verbose", action="store_true")
    args = ap.parse_args()
    host, _, port = args.target.rpartition(":")

    async def handle(reader, writer):
        n = next(counter)
        try:
            up_reader, up_writer = await asyncio.open_connection(host, int(port))
        except OSError as e:
            print(f"#{n} cannot reach {args.target}: {e}")
            writer.close()
            return
        await asyncio.gather(
            pipe(reader, up_writer, f"#{n} >>>", args.verbose),
            pipe(up_reader, writer, f"#{n} <<<", args.verbose),
        )

    server = await asyncio.start_server(handle, "127.0.0.1", args.listen_port)
    print(f"127.0.0.1:{args.listen_port} -> {args.target}")
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
