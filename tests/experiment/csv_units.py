"""Small runs on a csv file, and the same data split and scaled by hand."""

from pathlib import Path

import numpy as np

from dgpbench.config import compose

ROWS, TRAIN = 40, 36
TINY = ["model.num_inducing=5", "budget.steps=5", "protocol.test_samples=8", "engine.xla=false"]


def table() -> np.ndarray:
    """Three inputs of different scale and a target, original units."""
    rng = np.random.RandomState(0)
    X = rng.randn(ROWS, 3) * [1.0, 20.0, 0.1] + [0.0, 100.0, 5.0]
    y = 50.0 + 8.0 * np.sin(X[:, :1]) + 0.4 * X[:, 1:2] + 2.0 * rng.randn(ROWS, 1)
    return np.hstack([X, y])


def config(folder: Path, *overrides: str) -> dict:
    file = folder / "data.csv"
    if not file.exists():
        np.savetxt(file, table(), delimiter=",", fmt="%.17g")
    paths = [
        f"paths.results={folder / 'results'}",
        f"paths.datasets={folder / 'datasets'}",
        "paths.mirror=null",
    ]
    return compose(["dataset=csv", f"dataset.path={file}", "protocol.draws=100", *paths, *overrides])


def by_hand(split: int = 0) -> dict[str, np.ndarray]:
    """Protocol clean, without dgpbench: shuffled rows, scaled by the mean and deviation of the train rows."""
    data, order = table(), np.arange(ROWS)
    np.random.RandomState(split).shuffle(order)
    train, test = order[:TRAIN], order[TRAIN:]
    mean, std = data[train].mean(0), data[train].std(0)
    scaled = (data - mean) / std
    return {
        "X": scaled[train, :3],
        "y": scaled[train, 3],
        "X_test": scaled[test, :3],
        "y_test": data[test, 3],  # original units
        "shift": mean[3],
        "scale": std[3],
        "rows_test": test,
    }


def scores(hand: dict, mean: np.ndarray, var: np.ndarray) -> dict[str, float]:
    """Metrics of a Gaussian prediction in standardised units, by their definitions."""
    mean, var = mean * hand["scale"] + hand["shift"], var * hand["scale"] ** 2
    error = hand["y_test"] - mean
    log_p = -0.5 * (np.log(2.0 * np.pi * var) + error**2 / var)
    return {
        "test_rmse": np.sqrt(np.mean(error**2)),
        "test_rmse_std": np.sqrt(np.mean(error**2)) / hand["scale"],
        "test_loglik": log_p.mean(),
        "test_loglik_std": log_p.mean() + np.log(hand["scale"]),
        "test_coverage95": np.mean(np.abs(error) < 1.959963984540054 * np.sqrt(var)),
    }
