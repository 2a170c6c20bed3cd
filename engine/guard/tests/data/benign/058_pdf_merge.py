import argparse
import io

from pypdf import PdfReader, PdfWriter
from reportlab.pdfgen import canvas


def number_overlay(text, width, height):
    buf = io.BytesIO()
    c = canvas.Canvas(buf, pagesize=(width, height))
    c.setFont("Helvetica", 9)
    c.drawCentredString(width / 2, 20, text)
    c.save()
    buf.seek(0)
    return PdfReader(buf).pages[0]


def main():
    ap = argparse.ArgumentParser(description="Merge PDF files")
    ap.add_argument("inputs", nargs="+")
    ap.add_argument("-o", "--output", default="merged.pdf")
    ap.add_argument("--number", action="store_true")
    args = ap.parse_args()

    writer = PdfWriter()
    for name in args.inputs:
        reader = PdfReader(name)
        if reader.is_encrypted:
            print(f"{name} is encrypted, skipped")
            continue
        start = len(writer.pages)
        for page in reader.pages:
            writer.add_page(page)
        writer.add_outline_item(name, start)

    if args.number:
        total = len(writer.pages)
        for i, page in enumerate(writer.pages, 1):
            w, h = float(page.mediabox.width), float(page.mediabox.height)
            page.merge_page(number_overlay(f"{i} / {total}", w, h))

    with open(args.output, "wb") as f:
        writer.write(f)
    print(f"{args.output}: {len(writer.pages)} pages")


if __name__ == "__main__":
    main()
