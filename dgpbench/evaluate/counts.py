"""The metrics of counts: those of regression that mean something for whole numbers, and of the rate."""

from __future__ import annotations

import numpy as np

from dgpbench.evaluate.metrics import RegressionScorer
from dgpbench.evaluate.predictive import Predictive

BAND = (0.05, 0.5, 0.95)  # levels of the rate's credible band
RATE_NAMES = [f"rate_q{int(round(100 * level)):02d}" for level in BAND]


class CountScorer(RegressionScorer):
    """Scores chunks of draws, and keeps the mean and the credible band of the rate at each row."""

    def __init__(self, split, protocol: dict, seed: int, num_rows: int, threads: int = 1) -> None:
        super().__init__(split, protocol | {"kde_rows": 0}, seed, num_rows, threads)
        self.rates: list[np.ndarray] = []

    def add(
        self, predictive: Predictive, Y: np.ndarray, offset: int, terms: np.ndarray | None = None
    ) -> None:
        super().add(predictive, Y, offset, terms)
        if predictive.rates is not None:
            band = np.quantile(predictive.rates, BAND, axis=0)  # 3, N, P
            self.rates.append(np.concatenate([predictive.rates.mean(0)[None], band]))

    def finish(self, X: np.ndarray, Y: np.ndarray, rows: np.ndarray) -> tuple[dict, dict, dict, dict]:
        """Predictions also have the inputs x_0, x_1 ... and the rate for a unit of length or area."""
        metrics, details, predictions, draws = super().finish(X, Y, rows)
        P = Y.shape[1]
        places = X * np.reshape(self.split.x_std, -1) + np.reshape(self.split.x_mean, -1)
        predictions |= {f"x_{i}": np.repeat(places[:, i], P) for i in range(places.shape[1])}
        if self.rates:
            table = np.concatenate(self.rates, 1).reshape(4, -1)
            predictions |= dict(zip(("rate_mean", *RATE_NAMES), table, strict=True))
        predictions.pop("shapiro_w")
        return metrics, details, predictions, draws

    def _metrics(self, points: dict[str, np.ndarray], Y: np.ndarray) -> dict[str, float | None]:
        """Without the distance from a Gaussian; with the mean Poisson deviance of the predicted means."""
        metrics = super()._metrics(points, Y)
        for name in ("shapiro_w_median", "test_loglik_kde", "test_loglik_kde_std"):
            metrics[name] = None
        metrics["test_deviance"] = deviance(points["mean"], Y)
        return metrics


def deviance(mean: np.ndarray, Y: np.ndarray) -> float:
    """Mean Poisson deviance 2 (y log(y / mean) - y + mean)."""
    ratio = np.where(Y > 0, Y, 1.0) / np.maximum(mean, np.finfo(float).tiny)
    return float(np.mean(2.0 * (np.where(Y > 0, Y * np.log(ratio), 0.0) - Y + mean)))
