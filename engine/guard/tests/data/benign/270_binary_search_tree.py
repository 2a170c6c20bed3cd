class Node:
    def __init__(self, key):
        self.key = key
        self.left = self.right = None
        self.height = 1


def height(n):
    return n.height if n else 0


def update(n):
    n.height = 1 + max(height(n.left), height(n.right))


def balance(n):
    return height(n.left) - height(n.right)


def rotate_right(y):
    x = y.left
    y.left, x.right = x.right, y
    update(y)
    update(x)
    return x


def rotate_left(x):
    y = x.right
    x.right, y.left = y.left, x
    update(x)
    update(y)
    return y


def fix(n):
    update(n)
    if balance(n) > 1:
        if balance(n.left) < 0:
            n.left = rotate_left(n.left)
        return rotate_right(n)
    if balance(n) < -1:
        if balance(n.right) > 0:
            n.right = rotate_right(n.right)
        return rotate_left(n)
    return n


class AVLTree:
    def __init__(self, keys=()):
        self.root = None
        for k in keys:
            self.insert(k)

    def insert(self, key):
        self.root = self._insert(self.root, key)

    def _insert(self, n, key):
        if n is None:
            return Node(key)
        if key < n.key:
            n.left = self._insert(n.left, key)
        elif key > n.key:
            n.right = self._insert(n.right, key)
        return fix(n)

    def delete(self, key):
        self.root = self._delete(self.root, key)

    def _delete(self, n, key):
        if n is None:
            raise KeyError(key)
        if key < n.key:
            n.left = self._delete(n.left, key)
        elif key > n.key:
            n.right = self._delete(n.right, key)
        elif n.left is None:
            return n.right
        elif n.right is None:
            return n.left
        else:
            succ = n.right
            while succ.left:
                succ = succ.left
            n.key = succ.key
            n.right = self._delete(n.right, succ.key)
        return fix(n)

    def __iter__(self):
        def walk(n):
            if n:
                yield from walk(n.left)
                yield n.key
                yield from walk(n.right)
        return walk(self.root)

    def show(self, n=None, depth=0, first=True):
        n = self.root if first else n
        if n:
            self.show(n.right, depth + 1, False)
            print("    " * depth + str(n.key))
            self.show(n.left, depth + 1, False)


if __name__ == "__main__":
    t = AVLTree(range(1, 16))
    t.delete(8)
    t.show()
    assert list(t) == [k for k in range(1, 16) if k != 8]
    assert t.root.height <= 5
