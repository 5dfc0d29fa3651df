"""The regression metrics: per-point scores chunk by chunk, their averages at the end.

Everything is computed in the standardised units of the predictions and mapped to original units where that
differs: y_orig = y_std y + y_mean, so log densities lose sum log y_std, RMSE and CRPS are multiplied by
y_std, and PIT, coverage and W do not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dgpbench.evaluate import calibration, mixture, rows
from dgpbench.evaluate.gaussian import StandardDraws
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.quantiles import LEVELS

ROWS = 128  # rows scored together
DRAW_ROWS = 100  # test rows whose draws are kept
QUANTILE_NAMES = [f"q{int(round(100 * level)):02d}" for level in LEVELS]


def kept_rows(num_rows: int, limit: int = DRAW_ROWS) -> np.ndarray:
    """Positions of the test rows whose draws are kept: at most `limit`, evenly spread, fixed by num_rows."""
    return np.unique(np.linspace(0, num_rows - 1, min(limit, num_rows)).astype(int))


class RegressionScorer:
    """Scores chunks of a mixture or of draws, blocks of rows side by side; `finish` gives metrics, details
    and tables. The number of threads changes no number."""

    def __init__(self, split, protocol: dict, seed: int, num_rows: int, threads: int = 1) -> None:
        self.split, self.seed, self.num_rows, self.threads = split, seed, num_rows, threads
        self.y_mean, self.y_std = np.reshape(split.y_mean, -1), np.reshape(split.y_std, -1)
        self.num_draws = protocol["draws"]
        self.num_samples = protocol["test_samples"]
        limit = protocol.get("kde_rows")
        self.kde_rows = num_rows if limit is None else min(limit, num_rows)
        self.kept = kept_rows(num_rows)
        self.parts: dict[str, list[np.ndarray]] = {}
        self.standard: StandardDraws | None = None
        self.influence: np.ndarray | float = 0.0
        self.components, self.sampled = 0, True
        self.notes: list[str] = []

    def samples_for(self, predictive: Predictive) -> int:
        """How many samples to ask of such a model: draws are needed in full, components once per sample."""
        return self.num_samples if predictive.kind == "mixture" else max(self.num_samples, self.num_draws)

    def add(
        self, predictive: Predictive, Y: np.ndarray, offset: int, terms: np.ndarray | None = None
    ) -> None:
        """Score the rows offset, offset + 1, ... of the test set.

        `terms` (S, N), if any, take the place of the components in the log density: its log is their
        log-mean-exp.
        """
        self.components, self.sampled = predictive.num_components, predictive.log_weights is None
        if terms is not None:
            self.components, self.sampled = len(terms), True
        standard = self._standard(Y.shape[1]) if predictive.gaussian else None
        wanted = rows.Wanted(self.num_draws, self.seed, self.kde_rows, self.kept, self.sampled, standard)

        size = ROWS if standard is None else len(Y)  # where no row has draws of its own, all at once

        def score(start: int) -> dict[str, np.ndarray]:
            part = slice(start, start + size)
            fields = {f: a[:, part] for f in predictive.FIELDS if (a := getattr(predictive, f)) is not None}
            own = None if terms is None else terms[:, part]
            with np.errstate(all="ignore"):  # a state of each thread; `evaluate` looks for what is not finite
                return rows.score(Predictive(**fields), Y[part], offset + start, own, wanted)

        starts = range(0, len(Y), size)
        if self.threads == 1:  # without a thread, whose memory the system takes back and hands out anew
            self._keep(map(score, starts))
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                self._keep(pool.map(score, starts))

    def _standard(self, outputs: int) -> StandardDraws:
        """The draws that rows of one Gaussian share, made once."""
        if self.standard is None:
            self.standard = StandardDraws(self.num_draws, self.seed, self.num_rows, outputs)
        return self.standard

    def _keep(self, blocks: Iterable[dict[str, np.ndarray]]) -> None:
        """Take the scores of blocks of rows, in their order."""
        for scores in blocks:
            self.influence = self.influence + scores.pop("influence", 0.0)
            quantiles = scores["quantiles"] * self.y_std[:, None] + self.y_mean[:, None]
            for name, values in (scores | {"quantiles": quantiles.astype(np.float32)}).items():
                self.parts.setdefault(name, []).append(values)

    def finish(self, X: np.ndarray, Y: np.ndarray, rows: np.ndarray) -> tuple[dict, dict, dict, dict]:
        """(metrics, details, predictions, draws) once all rows are in."""
        points = {name: np.concatenate(values) for name, values in self.parts.items()}
        original_Y = Y * self.y_std + self.y_mean
        metrics = self._metrics(points, Y)
        original_X = X * np.reshape(self.split.x_std, -1) + np.reshape(self.split.x_mean, -1)
        if self.split.log_density is not None and "log_density" in points:
            truth = np.reshape(self.split.log_density(original_X, original_Y), -1)
            metrics.update(kl_to_truth(truth, points["log_density"] - self.log_scale))
        details = {"pit_histogram": calibration.pit_histogram(points["pit"])}
        return (
            metrics,
            details,
            self._predictions(points, original_Y, rows),
            self._draws(points["draws"], original_X[self.kept], original_Y[self.kept], rows[self.kept]),
        )

    @property
    def log_scale(self) -> float:
        return float(np.log(self.y_std).sum())

    def _metrics(self, points: dict[str, np.ndarray], Y: np.ndarray) -> dict[str, float | None]:
        error = points["mean"] - Y
        metrics: dict[str, float | None] = {}
        for name, key in (("test_loglik", "log_density"), ("test_loglik_kde", "kde")):
            value = float(points[key].mean()) if key in points else None
            metrics[name] = None if value is None else value - self.log_scale
            metrics[f"{name}_std"] = value
        metrics["test_loglik_mc_se"] = self._mc_se() if "log_density" in points else None
        for suffix, scale in (("", self.y_std), ("_std", 1.0)):
            metrics[f"test_rmse{suffix}"] = float(np.sqrt(np.mean((error * scale) ** 2)))
            metrics[f"test_crps{suffix}"] = float(np.mean(points["crps"] * scale))
        metrics["test_coverage95"] = calibration.coverage(points["pit"])
        metrics["test_pit_ks"] = calibration.ks_distance(points["pit"])
        metrics["shapiro_w_median"] = float(np.median(points["shapiro_w"]))
        return metrics

    def _mc_se(self) -> float | None:
        """Monte Carlo standard error of the mean log-likelihood: 0 for a mixture that is exact (with weights,
        or one component where more were asked for), None for one sample, which tells nothing of its error."""
        if not self.sampled:
            return 0.0
        if self.components > 1:
            return mixture.loglik_mc_se(np.asarray(self.influence), self.num_rows)
        return 0.0 if self.num_samples > 1 else None

    def _predictions(self, points: dict, original_Y: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """One line per test row and output; log_density is that of the row, over all its outputs."""
        N, P = original_Y.shape
        table = {
            "row": np.repeat(np.asarray(rows, dtype=np.int64), P),
            "output": np.tile(np.arange(P, dtype=np.int16), N),
            "y": original_Y.ravel(),
            "mean": (points["mean"] * self.y_std + self.y_mean).ravel(),
            "sd": (points["sd"] * self.y_std).ravel(),
        }
        if "log_density" in points:
            table["log_density"] = np.repeat(points["log_density"] - self.log_scale, P)
        table["shapiro_w"] = points["shapiro_w"].ravel()
        table["pit"] = points["pit"].ravel()
        quantiles = points["quantiles"].reshape(N * P, -1)
        return table | {name: quantiles[:, i] for i, name in enumerate(QUANTILE_NAMES)}

    def _draws(self, draws: np.ndarray, X: np.ndarray, Y: np.ndarray, rows: np.ndarray) -> dict:
        """One line per kept row and output, with its inputs x (D,) and its draws (n,), original units."""
        R, P, n = draws.shape
        draws = draws * self.y_std[:, None] + self.y_mean[:, None]
        return {
            "row": np.repeat(np.asarray(rows, dtype=np.int64), P),
            "output": np.tile(np.arange(P, dtype=np.int16), R),
            "y": Y.ravel(),
            "x": np.repeat(X, P, axis=0),
            "draws": draws.reshape(R * P, n).astype(np.float32),
        }


def kl_to_truth(true_log_density: np.ndarray, log_density: np.ndarray) -> dict[str, float | None]:
    """mean log p_true(y) - log p_model(y) over test points, with its standard error over points."""
    gap = true_log_density - log_density
    se = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else None
    return {"test_kl_to_truth": float(gap.mean()), "test_kl_to_truth_se": se}
