import heapq
import itertools
import json
import struct
import sys
from collections import Counter


def build_codes(freq):
    order = itertools.count()
    heap = [(n, next(order), sym) for sym, n in freq.items()]
    heapq.heapify(heap)
    if len(heap) == 1:
        return {heap[0][2]: "0"}
    while len(heap) > 1:
        a, b = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (a[0] + b[0], next(order), (a[2], b[2])))
    codes = {}

    def walk(node, prefix):
        if isinstance(node, tuple):
            walk(node[0], prefix + "0")
            walk(node[1], prefix + "1")
        else:
            codes[node] = prefix

    walk(heap[0][2], "")
    return codes


def compress(data: bytes) -> bytes:
    freq = Counter(data)
    codes = build_codes(freq) if freq else {}
    bits = "".join(codes[b] for b in data)
    padded = bits + "0" * (-len(bits) % 8)
    payload = int(padded, 2).to_bytes(len(padded) // 8, "big") if padded else b""
    header = json.dumps(freq).encode()
    return struct.pack(">II", len(header), len(bits)) + header + payload


def decompress(blob: bytes) -> bytes:
    hlen, nbits = struct.unpack(">II", blob[:8])
    freq = {int(k): v for k, v in json.loads(blob[8:8 + hlen]).items()}
    if not freq:
        return b""
    lookup = {code: sym for sym, code in build_codes(freq).items()}
    bits = "".join(f"{b:08b}" for b in blob[8 + hlen:])[:nbits]
    out, cur = bytearray(), ""
    for bit in bits:
        cur += bit
        if cur in lookup:
            out.append(lookup[cur])
            cur = ""
    return bytes(out)


if __name__ == "__main__":
    mode, src, dst = sys.argv[1:4]
    data = open(src, "rb").read()
    result = compress(data) if mode == "c" else decompress(data)
    open(dst, "wb").write(result)
    print(f"{len(data)} -> {len(result)} bytes")
