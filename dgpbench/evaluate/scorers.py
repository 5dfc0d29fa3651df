"""Scores of test rows, chunk by chunk, by task: numbers, counts, classes. `finish` gives the metrics.

Numbers are scored in the standardised units of the predictions and mapped to original units where that
differs: y_orig = y_std y + y_mean, so log densities lose sum log y_std, RMSE and CRPS are multiplied by
y_std, and PIT, coverage and W do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.evaluate import mixture
from dgpbench.evaluate.draws import (
    TOGETHER,
    StandardDraws,
    crps_draws,
    kde_log_density,
    pit_draws,
    shapiro_w,
    shapiro_w_draws,
)
from dgpbench.evaluate.metric_table import compute
from dgpbench.evaluate.metrics import QUANTILE_NAMES, TINY, class_inputs, pit_histogram, reliability_bins
from dgpbench.evaluate.predictive import Predictive

ROWS = 128  # rows scored together
DRAW_ROWS = 100  # test rows whose draws are kept
BAND = (0.05, 0.5, 0.95)  # levels of the rate's credible band
RATE_NAMES = [f"rate_q{int(round(100 * level)):02d}" for level in BAND]
EXACT_COMPONENTS = 200  # CRPS and quantiles of larger mixtures come from their draws


@dataclass(frozen=True)
class Wanted:
    """Draws of each row, their seed, and for which rows (by their position in the test set) a KDE is made and
    draws are kept; the draws that rows share where they are predicted by one Gaussian each."""

    draws: int
    seed: int
    kde_rows: int
    kept: np.ndarray
    sampled: bool  # components, or terms, are equally likely samples
    standard: StandardDraws | None = None

    def chosen(self, first: int, count: int) -> np.ndarray:
        """Which of the rows first, first + 1, ... have their draws kept: places from 0 on."""
        return self.kept[(self.kept >= first) & (self.kept < first + count)] - first


def score_rows(
    predictive: Predictive, Y: np.ndarray, first: int, terms: np.ndarray | None, wanted: Wanted
) -> dict[str, np.ndarray]:
    """Arrays (N, P), (N,) or (N, P, ...) by name for the rows first, first + 1, ... of the test set, observed
    at Y (N, P); `influence` (S,), if any, is for the Monte Carlo error of the log density (mixture.py).

    `terms` (S, N), if any, take the place of the components in the log density: its log is their
    log-mean-exp.
    """
    out = {"mean": predictive.mixture_mean(), "sd": predictive.mixture_sd()}
    out |= _density(predictive, Y, terms, wanted.sampled)
    if wanted.standard is None:
        return out | _drawn(predictive, Y, first, wanted)
    return out | _gaussian(predictive, Y, first, wanted, wanted.standard)


def _gaussian(
    predictive: Predictive, Y: np.ndarray, first: int, wanted: Wanted, standard: StandardDraws
) -> dict[str, np.ndarray]:
    """The scores of rows that are predicted by one Gaussian each; draws of their own where they are kept."""
    N, P = Y.shape
    mean, sd, y = predictive.mean.reshape(1, -1), np.sqrt(predictive.var).reshape(1, -1), Y.ravel()
    out = {"shapiro_w": standard.shapiro_w(first, N)}
    if kde := _kde_rows(Y, first, wanted):
        out["kde"] = standard.kde_log_density(mean[0, :kde], sd[0, :kde], y[:kde], first)
    chosen = wanted.chosen(first, N)
    kept = Predictive(mean=predictive.mean[:, chosen], var=predictive.var[:, chosen])
    out["draws"] = kept.draw_rows(wanted.draws, wanted.seed, first + chosen).transpose(0, 2, 1)
    score, quantiles = mixture.crps_and_quantiles(mean, sd, y)
    shapes = {"pit": mixture.cdf(mean, sd, y), "crps": score}
    return out | {k: v.reshape(N, P) for k, v in shapes.items()} | {"quantiles": quantiles.reshape(N, P, -1)}


def _drawn(predictive: Predictive, Y: np.ndarray, first: int, wanted: Wanted) -> dict[str, np.ndarray]:
    """The scores of rows that have draws of their own, of whatever kind, and the kept draws."""
    N, P = Y.shape
    y = Y.ravel()
    mixed = predictive.kind == "mixture"
    by_draws = not mixed or predictive.num_components > EXACT_COMPONENTS
    places = np.arange(first, first + N)
    draws = predictive.draw_rows(wanted.draws, wanted.seed, places).transpose(0, 2, 1)  # N, P, n
    draws = np.ascontiguousarray(draws).reshape(N * P, -1)
    out = {"draws": draws.reshape(N, P, -1)[wanted.chosen(first, N)]}
    if kde := _kde_rows(Y, first, wanted):
        out["kde"] = _in_parts(kde_log_density, draws[:kde], y[:kde])
    if by_draws:
        draws.sort(axis=1)
    W = _in_parts(shapiro_w if by_draws else shapiro_w_draws, draws)
    if by_draws:
        score, quantiles = crps_draws(draws, y), np.quantile(draws, mixture.LEVELS, axis=1).T
    if mixed:
        mean, sd = (a.reshape(-1, N * P) for a in (predictive.mean, np.sqrt(predictive.var)))
        weights = predictive.weights
        weights = None if weights is None else np.repeat(weights, P, axis=1)  # S, N * P
        pit = mixture.cdf(mean, sd, y, weights)
        if not by_draws:
            score, quantiles = mixture.crps_and_quantiles(mean, sd, y, weights)
    else:
        pit = pit_draws(draws, y)
    shapes = {"shapiro_w": W, "pit": pit, "crps": score}
    return out | {k: v.reshape(N, P) for k, v in shapes.items()} | {"quantiles": quantiles.reshape(N, P, -1)}


def _kde_rows(Y: np.ndarray, first: int, wanted: Wanted) -> int:
    """How many of the rows from `first` on have a KDE, which is for one output only."""
    return max(0, min(len(Y), wanted.kde_rows - first)) if Y.shape[1] == 1 else 0


def _in_parts(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """function(*arrays), whose rows do not depend on each other, over a few rows at a time."""
    starts = range(0, len(arrays[0]), TOGETHER)
    return np.concatenate([function(*(a[i : i + TOGETHER] for a in arrays)) for i in starts])


def _density(predictive: Predictive, Y: np.ndarray, terms: np.ndarray | None, sampled: bool) -> dict:
    """The log density (N,), where there is one, and the components' influence on its mean."""
    if terms is not None:
        logp, weights = terms, None
    elif predictive.kind == "mixture":
        logp, weights = mixture.component_logpdf(predictive.mean, predictive.var, Y), predictive.log_weights
    else:
        return {}
    out = {"log_density": mixture.log_density(logp, weights)}
    return out | {"influence": mixture.loglik_influence(logp)} if sampled else out


def kept_rows(num_rows: int, limit: int = DRAW_ROWS) -> np.ndarray:
    """Positions of the test rows whose draws are kept: at most `limit`, evenly spread, fixed by num_rows."""
    return np.unique(np.linspace(0, num_rows - 1, min(limit, num_rows)).astype(int))


class RegressionScorer:
    """Scores chunks of a mixture or of draws, blocks of rows side by side; `finish` gives metrics, details
    and tables. The number of threads changes no number."""

    def __init__(self, split, protocol: dict, seed: int, num_rows: int, threads: int = 1) -> None:
        self.split, self.task, self.seed, self.num_rows, self.threads = (
            split,
            split.task,
            seed,
            num_rows,
            threads,
        )
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
        wanted = Wanted(self.num_draws, self.seed, self.kde_rows, self.kept, self.sampled, standard)

        size = ROWS if standard is None else len(Y)  # where no row has draws of its own, all at once

        def score(start: int) -> dict[str, np.ndarray]:
            part = slice(start, start + size)
            fields = {f: a[:, part] for f in predictive.FIELDS if (a := getattr(predictive, f)) is not None}
            own = None if terms is None else terms[:, part]
            with np.errstate(all="ignore"):  # a state of each thread; `evaluate` looks for what is not finite
                return score_rows(Predictive(**fields), Y[part], offset + start, own, wanted)

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

    def finish(
        self, X: np.ndarray, Y: np.ndarray, rows: np.ndarray, config_dirs: Sequence[str]
    ) -> tuple[dict, dict, dict, dict]:
        """(metrics, details, predictions, draws) once all rows are in."""
        points = {name: np.concatenate(values) for name, values in self.parts.items()}
        original_Y = Y * self.y_std + self.y_mean
        original_X = X * np.reshape(self.split.x_std, -1) + np.reshape(self.split.x_mean, -1)
        inputs = self._inputs(points, original_Y, Y)
        if self.split.log_density is not None and "log_density" in points:
            inputs["true_log_density"] = np.reshape(self.split.log_density(original_X, original_Y), -1)
        standardised = inputs | self._standardised(points, Y)
        metrics = compute(self.task, inputs, standardised, config_dirs, self.notes.append)
        return (
            metrics,
            {"pit_histogram": pit_histogram(points["pit"])},
            self._predictions(points, original_Y, rows),
            self._draws(points["draws"], original_X[self.kept], original_Y[self.kept], rows[self.kept]),
        )

    @property
    def log_scale(self) -> float:
        return float(np.log(self.y_std).sum())

    def _inputs(self, points: dict[str, np.ndarray], y: np.ndarray, Y: np.ndarray) -> dict[str, Any]:
        """Inputs of metrics in original units; `Y` are the targets in standardised units."""
        known = "log_density" in points
        return {
            "y": y,
            "mean": points["mean"] * self.y_std + self.y_mean,
            "sd": points["sd"] * self.y_std,
            "squared_error": ((points["mean"] - Y) * self.y_std) ** 2,
            "crps": points["crps"] * self.y_std,
            "pit": points["pit"],
            "shapiro_w": points["shapiro_w"],
            "quantiles": points["quantiles"],
            "draws": points["draws"] * self.y_std[:, None] + self.y_mean[:, None],
            "draws_y": y[self.kept],
            "log_density": points["log_density"] - self.log_scale if known else None,
            "log_scale": self.log_scale,
            "standard_log_density": points.get("log_density"),
            "standard_kde": points.get("kde"),
            "standard_mean": points["mean"],
            "standard_y": Y,
            "mc_se": self._mc_se() if known else None,
        }

    def _standardised(self, points: dict[str, np.ndarray], Y: np.ndarray) -> dict[str, Any]:
        """Inputs that differ in standardised units."""
        quantiles = (points["quantiles"] - self.y_mean[:, None]) / self.y_std[:, None]
        return {
            "y": Y,
            "mean": points["mean"],
            "sd": points["sd"],
            "squared_error": (points["mean"] - Y) ** 2,
            "crps": points["crps"],
            "quantiles": quantiles,
            "draws": points["draws"],
            "draws_y": Y[self.kept],
            "log_density": points.get("log_density"),
            "log_scale": 0.0,
        }

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

    def finish(
        self, X: np.ndarray, Y: np.ndarray, rows: np.ndarray, config_dirs: Sequence[str]
    ) -> tuple[dict, dict, dict, dict]:
        """Predictions also have the inputs x_0, x_1 ... and the rate for a unit of length or area."""
        metrics, details, predictions, draws = super().finish(X, Y, rows, config_dirs)
        P = Y.shape[1]
        places = X * np.reshape(self.split.x_std, -1) + np.reshape(self.split.x_mean, -1)
        predictions |= {f"x_{i}": np.repeat(places[:, i], P) for i in range(places.shape[1])}
        if self.rates:
            table = np.concatenate(self.rates, 1).reshape(4, -1)
            predictions |= dict(zip(("rate_mean", *RATE_NAMES), table, strict=True))
        predictions.pop("shapiro_w")
        return metrics, details, predictions, draws

    def _inputs(self, points: dict[str, np.ndarray], y: np.ndarray, Y: np.ndarray) -> dict[str, Any]:
        """Without the distance from a Gaussian and densities of draws."""
        return super()._inputs(points, y, Y) | {"shapiro_w": None, "standard_kde": None}


class ClassScorer:
    """Scores chunks of class probabilities; `finish` gives metrics, details, tables and notes."""

    def __init__(self, split, protocol: dict, seed: int, num_rows: int, threads: int = 1) -> None:
        self.task, self.classes = split.task, list(split.classes)
        self.num_samples = protocol["test_samples"]
        self.parts: list[np.ndarray] = []
        self.notes: list[str] = []

    def samples_for(self, predictive: Predictive) -> int:
        return self.num_samples

    def add(self, predictive: Predictive, Y: np.ndarray, offset: int, terms: None = None) -> None:
        """Keep the probabilities of the next rows."""
        self.parts.append(predictive.probs)

    def finish(
        self, X: np.ndarray, Y: np.ndarray, rows: np.ndarray, config_dirs: Sequence[str]
    ) -> tuple[dict, dict, dict, None]:
        """(metrics, details, predictions, no draws) once all rows are in."""
        probs, y = np.concatenate(self.parts), Y[:, 0].astype(int)
        if zero := int(np.count_nonzero(probs[np.arange(len(y)), y] == 0)):
            self.notes.append(
                f"{zero} of {len(y)} test rows have a class that was given probability 0: their log-"
                f"likelihood counts as {np.log(TINY):.1f} each"
            )
        bins = reliability_bins(probs, y)
        inputs = class_inputs(probs, y, bins)
        metrics = compute(self.task, inputs, inputs, config_dirs, self.notes.append)
        details = {"classes": self.classes, "zero_probability_rows": zero, "reliability": bins}
        return metrics, details, self._predictions(probs, y, rows), None

    def _predictions(self, probs: np.ndarray, y: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
        """One line per test row: its class, the most probable one and all probabilities."""
        table = {
            "row": np.asarray(rows, dtype=np.int64),
            "y": y.astype(np.int32),
            "predicted": probs.argmax(1).astype(np.int32),
        }
        return table | {f"p_{c}": probs[:, c] for c in range(probs.shape[1])}
