import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression as SkLinear
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler


class LinearRegressionGD:
    def __init__(self, lr=0.05, epochs=3000, l2=0.0):
        self.lr, self.epochs, self.l2 = lr, epochs, l2

    def fit(self, X, y):
        n, d = X.shape
        self.w, self.b = np.zeros(d), 0.0
        self.losses = []
        for _ in range(self.epochs):
            error = X @ self.w + self.b - y
            self.w -= self.lr * (2 / n * X.T @ error + 2 * self.l2 * self.w)
            self.b -= self.lr * 2 * error.mean()
            self.losses.append(float((error**2).mean()))
        return self

    def predict(self, X):
        return X @ self.w + self.b


def main():
    X, y = load_diabetes(return_X_y=True)
    X_tr, X_te, y_tr, y_te = train_test_split(X, y, test_size=0.25, random_state=0)
    scaler = StandardScaler().fit(X_tr)
    X_tr, X_te = scaler.transform(X_tr), scaler.transform(X_te)
    for name, model in (("own", LinearRegressionGD()), ("ridge", LinearRegressionGD(l2=0.01)), ("sklearn", SkLinear())):
        pred = model.fit(X_tr, y_tr).predict(X_te)
        print(f"{name:<8} mse={mean_squared_error(y_te, pred):8.1f}  r2={r2_score(y_te, pred):.3f}")


if __name__ == "__main__":
    main()
