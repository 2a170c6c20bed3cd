import sys
from pathlib import Path

import pandas as pd
from openpyxl import load_workbook
from openpyxl.styles import Font, PatternFill
from openpyxl.utils import get_column_letter


def read_all(folder):
    frames = []
    for path in sorted(Path(folder).glob("*.xlsx")):
        if path.name.startswith("~$"):
            continue
        df = pd.read_excel(path)
        df.columns = [str(c).strip().lower().replace(" ", "_") for c in df.columns]
        df.insert(0, "source", path.stem)
        frames.append(df)
        print(f"{path.name}: {len(df)} rows")
    if not frames:
        sys.exit("no Excel files found")
    return pd.concat(frames, ignore_index=True)


def beautify(path):
    wb = load_workbook(path)
    for ws in wb:
        for cell in ws[1]:
            cell.font = Font(bold=True)
            cell.fill = PatternFill("solid", fgColor="DDEBF7")
        for i, col in enumerate(ws.columns, 1):
            width = max(len(str(c.value)) if c.value is not None else 0 for c in col)
            ws.column_dimensions[get_column_letter(i)].width = min(width + 2, 50)
        ws.freeze_panes = "A2"
    wb.save(path)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    out = sys.argv[2] if len(sys.argv) > 2 else "merged.xlsx"
    data = read_all(folder)
    numeric = data.select_dtypes("number").columns
    summary = data.groupby("source")[list(numeric)].sum().reset_index()
    with pd.ExcelWriter(out) as writer:
        summary.to_excel(writer, sheet_name="Summary", index=False)
        data.to_excel(writer, sheet_name="All", index=False)
    beautify(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
