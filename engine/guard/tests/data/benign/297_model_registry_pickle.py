import hashlib
import json
import pickle
import platform
import time
from pathlib import Path

import sklearn


class ModelRegistry:
    """Versioned storage of trained models in a directory."""

    def __init__(self, root="models"):
        self.root = Path(root)

    def _versions(self, name):
        folder = self.root / name
        return sorted((int(p.name[1:]) for p in folder.glob("v*") if p.name[1:].isdigit()), reverse=True)

    def save(self, name, model, metrics=None):
        version = (self._versions(name) or [0])[0] + 1
        folder = self.root / name / f"v{version}"
        folder.mkdir(parents=True)
        blob = pickle.dumps(model)
        (folder / "model.pkl").write_bytes(blob)
        meta = {
            "created": time.strftime("%Y-%m-%dT%H:%M:%S"),
            "sha256": hashlib.sha256(blob).hexdigest(),
            "sklearn": sklearn.__version__,
            "python": platform.python_version(),
            "class": type(model).__name__,
            "metrics": metrics or {},
        }
        (folder / "meta.json").write_text(json.dumps(meta, indent=2))
        return version

    def load(self, name, version=None):
        version = version or next(iter(self._versions(name)), None)
        if version is None:
            raise FileNotFoundError(f"no model named {name}")
        folder = self.root / name / f"v{version}"
        meta = json.loads((folder / "meta.json").read_text())
        blob = (folder / "model.pkl").read_bytes()
        if hashlib.sha256(blob).hexdigest() != meta["sha256"]:
            raise ValueError("model file is corrupt")
        if meta["sklearn"] != sklearn.__version__:
            print(f"warning: trained with scikit-learn {meta['sklearn']}")
        return pickle.loads(blob), meta


if __name__ == "__main__":
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    X, y = load_iris(return_X_y=True)
    registry = ModelRegistry()
    clf = LogisticRegression(max_iter=500).fit(X, y)
    print("saved version", registry.save("iris", clf, {"train_accuracy": clf.score(X, y)}))
    model, meta = registry.load("iris")
    print(meta["metrics"], model.predict(X[:3]))
