from __future__ import annotations

from fractions import Fraction
from typing import Sequence


class Matrix:
    def __init__(self, rows: Sequence[Sequence]):
        self.rows = [[Fraction(v) for v in row] for row in rows]
        if len({len(r) for r in self.rows}) != 1:
            raise ValueError("rows must have the same length")

    @classmethod
    def identity(cls, n: int) -> Matrix:
        return cls([[int(i == j) for j in range(n)] for i in range(n)])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.rows[0])

    def __eq__(self, other):
        return isinstance(other, Matrix) and self.rows == other.rows

    def __add__(self, other: Matrix) -> Matrix:
        if self.shape != other.shape:
            raise ValueError("shapes differ")
        return Matrix([[a + b for a, b in zip(r, s)] for r, s in zip(self.rows, other.rows)])

    def __mul__(self, k) -> Matrix:
        return Matrix([[v * k for v in r] for r in self.rows])

    __rmul__ = __mul__

    def __matmul__(self, other: Matrix) -> Matrix:
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"cannot multiply {self.shape} and {other.shape}")
        cols = list(zip(*other.rows))
        return Matrix([[sum(a * b for a, b in zip(row, col)) for col in cols] for row in self.rows])

    def _eliminate(self):
        n, m = self.shape
        if n != m:
            raise ValueError("matrix must be square")
        work = [row[:] + ident for row, ident in zip(self.rows, Matrix.identity(n).rows)]
        det = Fraction(1)
        for col in range(n):
            pivot = next((r for r in range(col, n) if work[r][col]), None)
            if pivot is None:
                return Fraction(0), None
            if pivot != col:
                work[col], work[pivot] = work[pivot], work[col]
                det = -det
            p = work[col][col]
            det *= p
            work[col] = [v / p for v in work[col]]
            for r in range(n):
                if r != col and work[r][col]:
                    f = work[r][col]
                    work[r] = [a - f * b for a, b in zip(work[r], work[col])]
        return det, Matrix([row[n:] for row in work])

    def det(self) -> Fraction:
        return self._eliminate()[0]

    def inverse(self) -> Matrix:
        det, inv = self._eliminate()
        if det == 0:
            raise ZeroDivisionError("matrix is singular")
        return inv

    def __str__(self):
        return "\n".join("  ".join(f"{str(v):>6}" for v in row) for row in self.rows)


if __name__ == "__main__":
    m = Matrix([[2, 1], [7, 4]])
    print(m.det())
    print(m.inverse())
    assert m @ m.inverse() == Matrix.identity(2)
