import numpy as np


class Dense:
    def __init__(self, n_in, n_out, rng):
        self.W = rng.normal(0, np.sqrt(2 / n_in), (n_in, n_out))
        self.b = np.zeros(n_out)

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, grad, lr):
        dW = self.x.T @ grad
        dx = grad @ self.W.T
        self.W -= lr * dW
        self.b -= lr * grad.sum(axis=0)
        return dx


class Tanh:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, grad, lr):
        return grad * (1 - self.y**2)


class Sigmoid:
    def forward(self, x):
        self.y = 1 / (1 + np.exp(-x))
        return self.y

    def backward(self, grad, lr):
        return grad * self.y * (1 - self.y)


def train(layers, X, y, epochs=5000, lr=0.1):
    for epoch in range(epochs):
        out = X
        for layer in layers:
            out = layer.forward(out)
        loss = np.mean((out - y) ** 2)
        grad = 2 * (out - y) / len(X)
        for layer in reversed(layers):
            grad = layer.backward(grad, lr)
        if epoch % 1000 == 0:
            print(f"epoch {epoch:5d} loss {loss:.5f}")
    return out


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    y = np.array([[0], [1], [1], [0]], float)
    layers = [Dense(2, 8, rng), Tanh(), Dense(8, 1, rng), Sigmoid()]
    print(train(layers, X, y, lr=0.5).round(3))
