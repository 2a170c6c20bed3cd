import matplotlib.pyplot as plt
import numpy as np


class KMeans:
    def __init__(self, k=3, max_iter=100, tol=1e-4, seed=0):
        self.k, self.max_iter, self.tol = k, max_iter, tol
        self.rng = np.random.default_rng(seed)

    def _init_centers(self, X):
        # k-means++
        centers = [X[self.rng.integers(len(X))]]
        while len(centers) < self.k:
            d2 = np.min([((X - c) ** 2).sum(axis=1) for c in centers], axis=0)
            centers.append(X[self.rng.choice(len(X), p=d2 / d2.sum())])
        return np.array(centers)

    def fit(self, X):
        self.centers_ = self._init_centers(X)
        for self.n_iter_ in range(1, self.max_iter + 1):
            labels = self.predict(X)
            new = np.array([
                X[labels == j].mean(axis=0) if np.any(labels == j) else self.centers_[j]
                for j in range(self.k)
            ])
            shift = np.linalg.norm(new - self.centers_)
            self.centers_ = new
            if shift < self.tol:
                break
        self.labels_ = self.predict(X)
        self.inertia_ = ((X - self.centers_[self.labels_]) ** 2).sum()
        return self

    def predict(self, X):
        dist = np.linalg.norm(X[:, None, :] - self.centers_[None, :, :], axis=2)
        return dist.argmin(axis=1)


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(loc, 0.6, (150, 2)) for loc in ((0, 0), (4, 4), (0, 5))])
    km = KMeans(3).fit(X)
    print(f"converged after {km.n_iter_} iterations, inertia {km.inertia_:.1f}")
    plt.scatter(*X.T, c=km.labels_, s=12)
    plt.scatter(*km.centers_.T, c="red", marker="x", s=100)
    plt.savefig("kmeans.png")
