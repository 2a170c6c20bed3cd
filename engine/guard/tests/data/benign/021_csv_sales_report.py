import argparse

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd


def load(path):
    df = pd.read_csv(path, parse_dates=["order_date"])
    missing = {"order_date", "product", "quantity", "unit_price"} - set(df.columns)
    if missing:
        raise SystemExit(f"missing columns: {', '.join(sorted(missing))}")
    df["revenue"] = df["quantity"] * df["unit_price"]
    return df


def monthly(df):
    return (
        df.set_index("order_date")
        .resample("MS")
        .agg(orders=("product", "count"), units=("quantity", "sum"), revenue=("revenue", "sum"))
        .round(2)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv")
    parser.add_argument("--out", default="report")
    args = parser.parse_args()

    df = load(args.csv)
    report = monthly(df)
    report.to_csv(f"{args.out}.csv")
    print(report.to_string())

    top = df.groupby("product")["revenue"].sum().nlargest(5)
    print("\nTop products:")
    print(top.to_string())

    fig, ax = plt.subplots(figsize=(10, 5))
    ax.bar(report.index.strftime("%b %Y"), report["revenue"], color="steelblue")
    ax.set_title("Monthly revenue")
    ax.set_ylabel("Revenue")
    plt.xticks(rotation=45, ha="right")
    fig.tight_layout()
    fig.savefig(f"{args.out}.png", dpi=150)


if __name__ == "__main__":
    main()
