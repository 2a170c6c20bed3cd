import argparse
import base64
import sys


def main():
    parser = argparse.ArgumentParser(description="Encode or decode base64 data")
    parser.add_argument("file", nargs="?", help="input file (default: stdin)")
    parser.add_argument("-d", "--decode", action="store_true")
    parser.add_argument("-u", "--urlsafe", action="store_true")
    parser.add_argument("-w", "--wrap", type=int, default=76)
    parser.add_argument("-o", "--output")
    args = parser.parse_args()

    data = open(args.file, "rb").read() if args.file else sys.stdin.buffer.read()
    if args.decode:
        data = b"".join(data.split())
        decode = base64.urlsafe_b64decode if args.urlsafe else base64.b64decode
        try:
            result = decode(data + b"=" * (-len(data) % 4))
        except Exception as exc:
            sys.exit(f"invalid base64: {exc}")
    else:
        encode = base64.urlsafe_b64encode if args.urlsafe else base64.b64encode
        text = encode(data)
        if args.wrap:
            text = b"\n".join(text[i:i + args.wrap] for i in range(0, len(text), args.wrap))
        result = text + b"\n"

    if args.output:
        with open(args.output, "wb") as f:
            f.write(result)
    else:
        sys.stdout.buffer.write(result)


if __name__ == "__main__":
    main()
