"""Solve sudokus with candidate elimination and depth first search."""
import sys

DIGITS = "123456789"
CELLS = [(r, c) for r in range(9) for c in range(9)]
PEERS = {
    (r, c): {
        (r2, c2) for r2, c2 in CELLS
        if (r2, c2) != (r, c) and (r2 == r or c2 == c or (r2 // 3, c2 // 3) == (r // 3, c // 3))
    }
    for r, c in CELLS
}


def parse(text):
    chars = [c for c in text if c in DIGITS + "0."]
    if len(chars) != 81:
        raise ValueError(f"expected 81 cells, got {len(chars)}")
    values = {cell: DIGITS for cell in CELLS}
    for cell, ch in zip(CELLS, chars):
        if ch in DIGITS and not assign(values, cell, ch):
            raise ValueError("contradicting puzzle")
    return values


def assign(values, cell, digit):
    if digit not in values[cell]:
        return False
    values[cell] = digit
    for peer in PEERS[cell]:
        if digit in values[peer]:
            rest = values[peer].replace(digit, "")
            if not rest:
                return False
            if len(rest) == 1:
                values[peer] = rest if len(values[peer]) == 1 else values[peer]
                if not assign(values, peer, rest):
                    return False
            else:
                values[peer] = rest
    return True


def search(values):
    open_cells = [c for c in CELLS if len(values[c]) > 1]
    if not open_cells:
        return values
    cell = min(open_cells, key=lambda c: len(values[c]))
    for digit in values[cell]:
        attempt = dict(values)
        if assign(attempt, cell, digit):
            result = search(attempt)
            if result:
                return result
    return None


def show(values):
    for r in range(9):
        if r in (3, 6):
            print("------+-------+------")
        print(" ".join(values[(r, c)] + (" |" if c in (2, 5) else "") for c in range(9)))


if __name__ == "__main__":
    puzzle = sys.argv[1] if len(sys.argv) > 1 else (
        "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    )
    solution = search(parse(puzzle))
    show(solution) if solution else print("no solution")
