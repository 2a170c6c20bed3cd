import curses
import random


def main(stdscr):
    curses.curs_set(0)
    stdscr.nodelay(True)
    stdscr.timeout(110)
    height, width = stdscr.getmaxyx()

    snake = [(height // 2, width // 2 - i) for i in range(3)]
    direction = (0, 1)
    keys = {
        curses.KEY_UP: (-1, 0),
        curses.KEY_DOWN: (1, 0),
        curses.KEY_LEFT: (0, -1),
        curses.KEY_RIGHT: (0, 1),
    }

    def new_food():
        while True:
            pos = (random.randint(1, height - 2), random.randint(1, width - 2))
            if pos not in snake:
                return pos

    food = new_food()
    score = 0
    while True:
        key = stdscr.getch()
        if key == ord("q"):
            break
        if key in keys:
            d = keys[key]
            if (d[0] + direction[0], d[1] + direction[1]) != (0, 0):
                direction = d
        head = (snake[0][0] + direction[0], snake[0][1] + direction[1])
        if head in snake or not (0 < head[0] < height - 1 and 0 < head[1] < width - 1):
            break
        snake.insert(0, head)
        if head == food:
            score += 1
            food = new_food()
        else:
            snake.pop()

        stdscr.erase()
        stdscr.border()
        stdscr.addstr(0, 2, f" Score: {score} ")
        stdscr.addch(*food, "*")
        for y, x in snake:
            stdscr.addch(y, x, "#")
        stdscr.refresh()

    stdscr.nodelay(False)
    stdscr.timeout(-1)
    stdscr.addstr(height // 2, max(0, width // 2 - 10), f"Game over! Score: {score}")
    stdscr.getch()


if __name__ == "__main__":
    curses.wrapper(main)
