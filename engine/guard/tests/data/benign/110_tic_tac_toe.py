from functools import lru_cache

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    for a, b, c in LINES:
        if board[a] != " " and board[a] == board[b] == board[c]:
            return board[a]
    return "draw" if " " not in board else None


@lru_cache(maxsize=None)
def minimax(board, player):
    result = winner(board)
    if result:
        return {"O": 1, "X": -1, "draw": 0}[result], None
    best = None
    for i, cell in enumerate(board):
        if cell != " ":
            continue
        score, _ = minimax(board[:i] + player + board[i + 1:], "X" if player == "O" else "O")
        if best is None or (score > best[0] if player == "O" else score < best[0]):
            best = (score, i)
    return best


def show(board):
    print()
    for r in range(0, 9, 3):
        print(" " + " | ".join(c if c != " " else str(r + i + 1) for i, c in enumerate(board[r:r + 3])))
        if r < 6:
            print("---+---+---")


def main():
    board = " " * 9
    while not winner(board):
        show(board)
        try:
            move = int(input("Your move (1-9): ")) - 1
            if board[move] != " " or move < 0:
                raise ValueError
        except (ValueError, IndexError):
            print("Invalid move")
            continue
        board = board[:move] + "X" + board[move + 1:]
        if not winner(board):
            _, reply = minimax(board, "O")
            board = board[:reply] + "O" + board[reply + 1:]
    show(board)
    print({"X": "You win!", "O": "I win!", "draw": "It's a draw."}[winner(board)])


if __name__ == "__main__":
    main()
