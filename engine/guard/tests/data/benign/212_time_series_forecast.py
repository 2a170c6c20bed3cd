import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from statsmodels.tsa.holtwinters import ExponentialSmoothing


def mape(actual, pred):
    return float(np.mean(np.abs((actual - pred) / actual)) * 100)


def main(path, horizon=12):
    s = pd.read_csv(path, parse_dates=["month"], index_col="month")["sales"].asfreq("MS")
    if s.isna().any():
        print(f"interpolating {s.isna().sum()} missing months")
        s = s.interpolate()
    train, test = s[:-horizon], s[-horizon:]

    best = None
    for trend in ("add", "mul"):
        for seasonal in ("add", "mul"):
            for damped in (True, False):
                fit = ExponentialSmoothing(train, trend=trend, seasonal=seasonal, seasonal_periods=12, damped_trend=damped).fit()
                err = mape(test, fit.forecast(horizon))
                if best is None or err < best[0]:
                    best = (err, dict(trend=trend, seasonal=seasonal, damped_trend=damped))
    print(f"best model {best[1]} with MAPE {best[0]:.1f}%")

    final = ExponentialSmoothing(s, seasonal_periods=12, **best[1]).fit()
    forecast = final.forecast(horizon)
    forecast.rename("forecast").to_csv("forecast.csv")

    ax = s.plot(label="history", figsize=(10, 5))
    forecast.plot(ax=ax, label="forecast", style="--")
    ax.legend()
    plt.tight_layout()
    plt.savefig("forecast.png")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 12)
