import argparse
import csv
import math
import pickle
import random
import re
from collections import Counter, defaultdict


class NaiveBayes:
    def __init__(self, alpha=1.0):
        self.alpha = alpha
        self.word_counts = defaultdict(Counter)
        self.label_counts = Counter()
        self.vocab = set()

    @staticmethod
    def tokens(text):
        words = re.findall(r"[a-z']+", text.lower())
        return words + [f"{a}_{b}" for a, b in zip(words, words[1:])]

    def fit(self, rows):
        for text, label in rows:
            self.label_counts[label] += 1
            for t in self.tokens(text):
                self.word_counts[label][t] += 1
                self.vocab.add(t)
        self.totals = {l: sum(c.values()) for l, c in self.word_counts.items()}
        return self

    def predict(self, text):
        n = sum(self.label_counts.values())
        best = None
        for label, count in self.label_counts.items():
            score = math.log(count / n)
            denom = self.totals[label] + self.alpha * len(self.vocab)
            for t in self.tokens(text):
                score += math.log((self.word_counts[label][t] + self.alpha) / denom)
            if best is None or score > best[0]:
                best = (score, label)
        return best[1]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("csv")
    ap.add_argument("--model", default="nb.pkl")
    args = ap.parse_args()
    with open(args.csv, newline="", encoding="utf-8") as f:
        rows = [(r["text"], r["label"]) for r in csv.DictReader(f)]
    random.Random(0).shuffle(rows)
    cut = int(len(rows) * 0.8)
    model = NaiveBayes().fit(rows[:cut])
    matrix = Counter((label, model.predict(text)) for text, label in rows[cut:])
    right = sum(n for (a, b), n in matrix.items() if a == b)
    print(f"accuracy {right / max(1, len(rows) - cut):.3f}")
    for (actual, predicted), n in sorted(matrix.items()):
        print(f"  {actual} -> {predicted}: {n}")
    with open(args.model, "wb") as f:
        pickle.dump(model, f)


if __name__ == "__main__":
    main()
