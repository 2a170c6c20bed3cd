import argparse
import csv
import re
import sys

SPECIAL = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def escape(text):
    return "".join(SPECIAL.get(c, c) for c in text)


def is_number(text):
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text.strip()) is not None


def table(rows, caption=None, label=None, digits=None):
    header, body = rows[0], rows[1:]
    columns = list(zip(*body))
    numeric = [all(is_number(v) for v in col if v) for col in columns]
    spec = "".join("r" if n else "l" for n in numeric)

    def cell(v, num):
        if num and digits is not None and v:
            return f"{float(v):.{digits}f}"
        return v if num else escape(v)

    out = [r"\begin{table}[ht]", r"  \centering", rf"  \begin{{tabular}}{{{spec}}}", r"    \toprule"]
    out.append("    " + " & ".join(rf"\textbf{{{escape(h)}}}" for h in header) + r" \\")
    out.append(r"    \midrule")
    for row in body:
        out.append("    " + " & ".join(cell(v, n) for v, n in zip(row, numeric)) + r" \\")
    out += [r"    \bottomrule", r"  \end{tabular}"]
    if caption:
        out.append(rf"  \caption{{{escape(caption)}}}")
    if label:
        out.append(rf"  \label{{{label}}}")
    out.append(r"\end{table}")
    return "\n".join(out)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("csv", nargs="?", type=argparse.FileType("r"), default=sys.stdin)
    ap.add_argument("--caption")
    ap.add_argument("--label")
    ap.add_argument("--digits", type=int)
    a = ap.parse_args()
    print(table(list(csv.reader(a.csv)), a.caption, a.label, a.digits))
