import csv
import io
import sys

import qrcode
from reportlab.lib.pagesizes import A4
from reportlab.lib.units import mm
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen import canvas

COLS, ROWS = 3, 5
MARGIN = 15 * mm


def qr_image(data):
    qr = qrcode.QRCode(error_correction=qrcode.constants.ERROR_CORRECT_M, border=2)
    qr.add_data(data)
    qr.make(fit=True)
    buf = io.BytesIO()
    qr.make_image().save(buf, format="PNG")
    buf.seek(0)
    return ImageReader(buf)


def main(src, dst):
    with open(src, newline="") as f:
        rows = [(r["label"], r["url"]) for r in csv.DictReader(f)]
    width, height = A4
    cell_w = (width - 2 * MARGIN) / COLS
    cell_h = (height - 2 * MARGIN) / ROWS
    size = min(cell_w, cell_h) - 12 * mm
    c = canvas.Canvas(dst, pagesize=A4)
    for i, (label, url) in enumerate(rows):
        pos = i % (COLS * ROWS)
        if i and pos == 0:
            c.showPage()
        col, row = pos % COLS, pos // COLS
        x = MARGIN + col * cell_w + (cell_w - size) / 2
        y = height - MARGIN - (row + 1) * cell_h + 8 * mm
        c.drawImage(qr_image(url), x, y, size, size)
        c.setFont("Helvetica", 9)
        c.drawCentredString(x + size / 2, y - 4 * mm, label[:40])
    c.save()
    print(f"{len(rows)} codes -> {dst}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "codes.pdf")
