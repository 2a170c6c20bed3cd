import argparse

import matplotlib.animation as animation
import matplotlib.pyplot as plt
import numpy as np

PATTERNS = {
    "glider": [(0, 1), (1, 2), (2, 0), (2, 1), (2, 2)],
    "blinker": [(1, 0), (1, 1), (1, 2)],
    "r-pentomino": [(0, 1), (0, 2), (1, 0), (1, 1), (2, 1)],
}


def step(grid):
    neighbours = sum(
        np.roll(np.roll(grid, dy, 0), dx, 1)
        for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)
    )
    return ((neighbours == 3) | ((grid == 1) & (neighbours == 2))).astype(np.uint8)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=100)
    ap.add_argument("--pattern", choices=["random", *PATTERNS], default="random")
    ap.add_argument("--save", help="write the animation to a gif")
    args = ap.parse_args()

    if args.pattern == "random":
        grid = np.random.choice([0, 1], (args.size, args.size), p=[0.8, 0.2]).astype(np.uint8)
    else:
        grid = np.zeros((args.size, args.size), np.uint8)
        for y, x in PATTERNS[args.pattern]:
            grid[args.size // 2 + y, args.size // 2 + x] = 1

    fig, ax = plt.subplots()
    ax.axis("off")
    img = ax.imshow(grid, cmap="binary", interpolation="nearest")

    def update(frame):
        nonlocal grid
        grid = step(grid)
        img.set_data(grid)
        ax.set_title(f"generation {frame}, alive {int(grid.sum())}")
        return (img,)

    anim = animation.FuncAnimation(fig, update, frames=200, interval=60)
    if args.save:
        anim.save(args.save, writer="pillow")
    else:
        plt.show()


if __name__ == "__main__":
    main()
