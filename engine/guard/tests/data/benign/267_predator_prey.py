import matplotlib.pyplot as plt
import numpy as np


def lotka_volterra(state, t, a, b, c, d):
    prey, pred = state
    return np.array([a * prey - b * prey * pred, -c * pred + d * prey * pred])


def rk4(f, y0, t, args=()):
    y = np.empty((len(t), len(y0)))
    y[0] = y0
    for i in range(len(t) - 1):
        h = t[i + 1] - t[i]
        k1 = f(y[i], t[i], *args)
        k2 = f(y[i] + h * k1 / 2, t[i] + h / 2, *args)
        k3 = f(y[i] + h * k2 / 2, t[i] + h / 2, *args)
        k4 = f(y[i] + h * k3, t[i] + h, *args)
        y[i + 1] = y[i] + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return y


if __name__ == "__main__":
    t = np.linspace(0, 60, 3000)
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for start in ((10, 5), (20, 5), (30, 8)):
        sol = rk4(lotka_volterra, start, t, (1.0, 0.1, 1.5, 0.075))
        right.plot(sol[:, 0], sol[:, 1], label=f"start {start}")
    left.plot(t, sol[:, 0], label="prey")
    left.plot(t, sol[:, 1], label="predators")
    left.set_xlabel("time")
    right.set_xlabel("prey")
    right.set_ylabel("predators")
    left.legend()
    right.legend()
    fig.savefig("lotka_volterra.png", dpi=120)
