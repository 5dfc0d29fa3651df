"""Small files and models of a user's own, made on the spot."""

import sys
from pathlib import Path

import numpy as np

RIDGE = """
import numpy as np
from dgpbench.evaluate.predictive import Predictive


class Ridge:
    def __init__(self, cfg):
        self.penalty, self.values = cfg["model"]["penalty"], {}

    def fit(self, split, run):
        if self.penalty == 13:
            raise ZeroDivisionError("unlucky")
        X, Y = split.X_train, split.Y_train
        weights = np.linalg.solve(X.T @ X + self.penalty * np.eye(X.shape[1]), X.T @ Y)
        self.values = {"weights": weights, "noise": np.mean((Y - X @ weights) ** 2, axis=0)}

    def predict(self, X, samples, seed):
        mean = (X @ self.values["weights"])[None]
        return Predictive(mean=mean, var=np.broadcast_to(self.values["noise"], mean.shape))

    def parameters(self):
        return self.values

    def load_parameters(self, values):
        self.values = values
"""
RIDGE_YAML = "# Ridge.\n_target_: own_ridge.Ridge\nname: ridge\nclosed_form: true\npenalty: 1.0\n"


def write_ridge(folder: Path) -> str:
    """own_ridge.py and conf/model/ridge.yaml; returns the config folder."""
    sys.modules.pop("own_ridge", None)  # that of another test
    (folder / "own_ridge.py").write_text(RIDGE)
    (folder / "conf" / "model").mkdir(parents=True)
    (folder / "conf" / "model" / "ridge.yaml").write_text(RIDGE_YAML)
    return str(folder / "conf")


def write_csv(path: Path, columns: dict) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(str(value) for value in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def regression(n: int = 60, seed: int = 0) -> dict:
    """Columns a, b, c, y and z with y and z linear in the others, plus noise."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, n)) * [[1.0], [10.0], [0.1]] + 5.0
    noise = rng.normal(size=(2, n))
    return {"a": a, "b": b, "c": c, "y": 3 * a - b + noise[0], "z": 100 * c + b + noise[1]}
