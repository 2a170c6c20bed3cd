import argparse
import collections
import re
import string

STOP = set("a an and are as at be by for from has he in is it its of on or that the to was were will with".split())


def words(stream):
    for line in stream:
        for word in re.findall(r"[\w']+", line.lower()):
            word = word.strip(string.punctuation)
            if len(word) > 2 and word not in STOP and not word.isdigit():
                yield word


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=argparse.FileType("r", encoding="utf-8"))
    parser.add_argument("-n", "--number", type=int, default=20)
    args = parser.parse_args()

    counter = collections.Counter()
    for f in args.files:
        with f:
            counter.update(words(f))
    if not counter:
        print("no words found")
        return
    widest = max(len(w) for w, _ in counter.most_common(args.number))
    top = counter.most_common(1)[0][1]
    for word, count in counter.most_common(args.number):
        bar = "#" * max(1, int(40 * count / top))
        print(f"{word:<{widest}} {count:>6} {bar}")


if __name__ == "__main__":
    main()
