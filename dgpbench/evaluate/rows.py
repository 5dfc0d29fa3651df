"""Scores of single test rows from their predictive distribution, in standardised units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dgpbench.evaluate import calibration, crps, grid, mixture
from dgpbench.evaluate.gaussian import TOGETHER, StandardDraws
from dgpbench.evaluate.kde import kde_log_density
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.quantiles import LEVELS, mixture_quantiles
from dgpbench.evaluate.shapiro import shapiro_w, shapiro_w_draws

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


def score(
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
    score, quantiles = crps_and_quantiles(mean, sd, y)
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
        score, quantiles = crps.crps_draws(draws, y), np.quantile(draws, LEVELS, axis=1).T
    if mixed:
        mean, sd = (a.reshape(-1, N * P) for a in (predictive.mean, np.sqrt(predictive.var)))
        weights = predictive.weights
        weights = None if weights is None else np.repeat(weights, P, axis=1)  # S, N * P
        pit = mixture.cdf(mean, sd, y, weights)
        if not by_draws:
            score, quantiles = crps_and_quantiles(mean, sd, y, weights)
    else:
        pit = calibration.pit_draws(draws, y)
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


def crps_and_quantiles(
    mean: np.ndarray, sd: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """CRPS (m,) at y and quantiles (m, L) of mixtures with mean, sd, weights (S, m): from a grid, and where
    it is not enough from all pairs and by root finding."""
    m, s = np.ascontiguousarray(mean.T), np.ascontiguousarray(sd.T)
    w = None if weights is None else np.ascontiguousarray(weights.T)
    if len(mean) == 1:
        return crps.crps_mixture(mean, sd, y, weights), mixture_quantiles(m, s, w)
    difference, quantiles = grid.summaries(m, s, w, LEVELS)
    rest = np.isnan(difference)
    if rest.any():
        part = None if weights is None else weights[:, rest]
        difference[rest] = crps.difference_of_pairs(mean[:, rest], sd[:, rest], part)
    rest = np.isnan(quantiles).any(1)
    if rest.any():
        quantiles[rest] = mixture_quantiles(m[rest], s[rest], None if w is None else w[rest])
    return crps.crps_mixture(mean, sd, y, weights, difference), quantiles
