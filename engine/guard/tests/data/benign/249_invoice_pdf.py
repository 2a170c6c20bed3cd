import json
import sys
from datetime import date, timedelta
from decimal import Decimal

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

VAT = Decimal("0.19")


def money(value):
    return f"{value:,.2f} EUR"


def build(data, out):
    styles = getSampleStyleSheet()
    story = [
        Paragraph(data["seller"]["name"], styles["Title"]),
        Paragraph("<br/>".join(data["customer"]["address"]), styles["Normal"]),
        Spacer(1, 20),
        Paragraph(f"Invoice {data['number']}", styles["Heading2"]),
        Paragraph(f"Date: {date.today():%d.%m.%Y}, due: {date.today() + timedelta(days=14):%d.%m.%Y}", styles["Normal"]),
        Spacer(1, 12),
    ]
    rows = [["Description", "Qty", "Price", "Total"]]
    net = Decimal(0)
    for item in data["items"]:
        price = Decimal(str(item["price"]))
        total = price * item["quantity"]
        net += total
        rows.append([item["description"], item["quantity"], money(price), money(total)])
    tax = (net * VAT).quantize(Decimal("0.01"))
    rows += [["", "", "Net", money(net)], ["", "", f"VAT {VAT:.0%}", money(tax)], ["", "", "Total", money(net + tax)]]
    table = Table(rows, colWidths=[240, 50, 90, 100])
    table.setStyle(TableStyle([
        ("BACKGROUND", (0, 0), (-1, 0), colors.HexColor("#dddddd")),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
        ("LINEBELOW", (0, 0), (-1, -4), 0.25, colors.grey),
        ("FONTNAME", (2, -1), (-1, -1), "Helvetica-Bold"),
    ]))
    story += [table, Spacer(1, 24), Paragraph(data.get("note", "Thank you for your order."), styles["Normal"])]
    SimpleDocTemplate(out, pagesize=A4, title=f"Invoice {data['number']}").build(story)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as fh:
        invoice = json.load(fh)
    target = f"invoice_{invoice['number']}.pdf"
    build(invoice, target)
    print(target)
