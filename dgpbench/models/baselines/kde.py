"""Kernel density estimates as models: unconditional and conditional, as in thesis table 4.1.

Unconditional: p(y) is the average of N(y | y_i, h^2) over training targets. Conditional (Nadaraya-Watson):
p(y | x) weighs them by k(x, x_i). Bandwidths are one factor for x and one for y, times standard deviations.

"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import minimize

from dgpbench.config.schema import COUNT, COUNT_OR_NULL, Field
from dgpbench.config.sections import option
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive

LOG_2PI = math.log(2.0 * math.pi)
LOWEST, HIGHEST = 1e-3, 1e2  # of a bandwidth, in standard deviations
GRID_ROWS = 200  # rows scored at each point of the first grid
BLOCK = 1 << 20  # entries of a work array


def silverman(n: int, dim: int) -> float:
    """The rule of thumb for n points in `dim` dimensions, in standard deviations."""
    return (4.0 / ((dim + 2.0) * n)) ** (1.0 / (dim + 4.0))


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """|a - b|^2 (m, n) of rows A (m, D) and B (n, D)."""
    cross = A @ B.T
    cross *= -2.0
    cross += np.sum(A * A, 1)[:, None]
    cross += np.sum(B * B, 1)
    return np.maximum(cross, 0.0, out=cross)


def log_sum_exp(A: np.ndarray) -> np.ndarray:
    """Over the last axis; -inf entries count as nothing."""
    top = A.max(-1)
    return top + np.log(np.exp(A - top[..., None]).sum(-1))


def loo_loglik(
    Y: np.ndarray, rows: np.ndarray, h: float, X: np.ndarray | None = None, h_x: float = math.inf
) -> float:
    """Mean over i in `rows` of log sum_j k_ij N(y_i | y_j, h^2 I) / sum_j k_ij over all j but i.

    k_ij = exp(-|x_i - x_j|^2 / 2 h_x^2), or 1 without X: the conditional and the unconditional estimate.
    """
    P, total = Y.shape[1], 0.0
    step = max(1, BLOCK // len(Y))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        if X is None:
            log_kernel = np.zeros((len(part), len(Y)))
        else:
            log_kernel = squared_distances(X[part], X) * (-0.5 / h_x**2)
        log_kernel[np.arange(len(part)), part] = -np.inf
        joint = log_kernel + squared_distances(Y[part], Y) * (-0.5 / h**2)
        total += float(np.sum(log_sum_exp(joint) - log_sum_exp(log_kernel)))
    return total / len(rows) - P * (math.log(h) + 0.5 * LOG_2PI)


def maximise(
    objective: Callable[[Sequence[float], np.ndarray], float], rows: np.ndarray, *grids: Sequence[float]
) -> tuple[np.ndarray, float]:
    """The bandwidths with the largest objective(bandwidths, rows), and its value.

    The best point of the grid, judged on the first rows, then Nelder-Mead in the logarithms on all of them.
    """
    best = max(itertools.product(*grids), key=lambda h: objective(h, rows[:GRID_ROWS]))
    start = np.log(best)
    simplex = np.vstack([start, start + 0.3 * np.eye(len(start))])
    low, high = math.log(LOWEST), math.log(HIGHEST)
    found = minimize(
        lambda t: -objective(np.exp(t), rows),
        start,
        method="Nelder-Mead",
        bounds=[(low, high)] * len(start),
        options={"initial_simplex": np.clip(simplex, low, high), "xatol": 1e-3, "fatol": 1e-7},
    )
    return np.exp(found.x), -float(found.fun)


GRID_Y = (0.03, 0.1, 0.3, 1.0)
GRID_X = (0.05, 0.15, 0.5, 1.5, 5.0)
NEGLIGIBLE = 1e-10  # weight that may be dropped without a word


class KDE:
    """Unconditional: the inputs are ignored."""

    tasks = ("regression",)
    keeps_rows = True

    def __init__(self, cfg: dict):
        self.rule = option(cfg, "bandwidth", Field(str, choices=("loo", "silverman")))
        self.max_components = option(cfg, "max_components", COUNT)
        self.search_rows = option(cfg, "search_rows", COUNT)
        self.values: dict[str, np.ndarray] = {}

    def fit(self, split, run) -> dict:
        _, Y = training_sample(split, self.max_components, "max_components", run)
        sd = spread(Y)
        h, loglik = self.bandwidth_y(Y / sd, run)
        self.values = {"Y": Y, "bandwidth_y": h * sd}
        return {"kernels": len(Y), "bandwidth_y": h, "loo_loglik": loglik - float(np.log(sd).sum())}

    def bandwidth_y(self, Y: np.ndarray, run) -> tuple[float, float]:
        """The factor for y alone and its leave-one-out log-likelihood; Y (N, P) in standard deviations."""
        rows = self.scored_rows(len(Y), run)
        if self.rule == "silverman":
            h = silverman(*Y.shape)
            return h, loo_loglik(Y, rows, h)
        (h,), loglik = maximise(lambda h, rows: loo_loglik(Y, rows, *h), rows, GRID_Y)
        warn_of_ties(h, run)
        return float(h), loglik

    def scored_rows(self, n: int, run) -> np.ndarray:
        """Rows whose leave-one-out density is computed in the search: a random sample of many."""
        return np.random.RandomState(run.seed).permutation(n)[: self.search_rows]

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        Y, h = self.values["Y"], self.values["bandwidth_y"]
        shape = (len(Y), len(X), Y.shape[1])
        log_weights = np.full(shape[:2], -np.log(len(Y)))
        mean, var = np.broadcast_to(Y[:, None], shape), np.broadcast_to(h**2, shape)
        return Predictive(mean=mean, var=var, log_weights=log_weights)

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = values


class ConditionalKDE(KDE):
    """Weights by a Gaussian kernel in x; or, with `neighbours`, equal ones on the nearest points."""

    def __init__(self, cfg: dict):
        super().__init__(cfg)
        self.max_points = option(cfg, "max_points", COUNT)
        self.neighbours = option(cfg, "neighbours", COUNT_OR_NULL)
        if self.neighbours and self.neighbours > self.max_components:
            raise UserError(
                f"model.neighbours={self.neighbours} is more than model.max_components={self.max_components};"
                " raise model.max_components"
            )

    def fit(self, split, run) -> dict:
        X, Y = training_sample(split, self.max_points, "max_points", run)
        sd_x, sd_y = spread(X), spread(Y)
        U, V, rows = X / sd_x, Y / sd_y, self.scored_rows(len(Y), run)
        if self.neighbours:  # only the order of distances matters; y as in the unconditional estimate
            h_x = 1.0
            h_y, loglik = self.bandwidth_y(V, run)
        elif self.rule == "silverman":
            h_x = h_y = silverman(len(Y), U.shape[1] + V.shape[1])
            loglik = loo_loglik(V, rows, h_y, U, h_x)
        else:
            (h_x, h_y), loglik = maximise(
                lambda h, rows: loo_loglik(V, rows, h[1], U, h[0]), rows, GRID_X, GRID_Y
            )
            warn_of_ties(h_y, run)
        self.values = {"X": X, "Y": Y, "bandwidth_x": h_x * sd_x, "bandwidth_y": h_y * sd_y}
        loglik -= float(np.log(sd_y).sum())
        facts = {"kernels": len(Y), "bandwidth_y": float(h_y)}
        if self.neighbours:
            return facts | {"loo_loglik_unconditional": loglik}
        dropped = self._dropped(rows, run)
        return facts | {"bandwidth_x": float(h_x), "loo_loglik": loglik, "dropped_weight": dropped}

    def _dropped(self, rows: np.ndarray, run) -> float:
        """The largest weight that max_components leaves out at one of the scored training points."""
        if len(self.values["Y"]) <= self.max_components:
            return 0.0
        dropped = max(float(part[2].max()) for part in self._weigh(self.values["X"][rows], rows))
        if dropped > NEGLIGIBLE:
            run.note(
                f"the {self.max_components:,} heaviest of {len(self.values['Y']):,} kernels leave out up to"
                f" {dropped:.1e} of the weight at a point; model.max_components takes more"
            )
        return dropped

    def _weigh(self, X: np.ndarray, own: np.ndarray | None = None):
        """In blocks of rows of X: the kernels kept (n, K), their log weights (n, K), the weight dropped (n,).

        `own` are the numbers of training rows; each has no weight at its own point.
        """
        centres, count = self.values["X"] / self.values["bandwidth_x"], len(self.values["X"])
        kept = min(self.neighbours or self.max_components, count)
        step = max(1, BLOCK // count)
        for start in range(0, len(X), step):
            part = slice(start, start + step)
            log_kernel = -0.5 * squared_distances(X[part] / self.values["bandwidth_x"], centres)
            if own is not None:
                log_kernel[np.arange(len(log_kernel)), own[part]] = -np.inf
            index = np.sort(np.argpartition(-log_kernel, kept - 1, axis=1)[:, :kept], axis=1)
            heaviest = np.take_along_axis(log_kernel, index, 1)
            if self.neighbours:
                heaviest = np.zeros_like(heaviest)
            kept_total = log_sum_exp(heaviest)
            dropped = -np.expm1(np.minimum(kept_total - log_sum_exp(log_kernel), 0.0))
            yield index, heaviest - kept_total[:, None], dropped

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        parts = [(index, log_weights) for index, log_weights, _ in self._weigh(X)]
        index, log_weights = (np.concatenate(arrays).T for arrays in zip(*parts, strict=True))  # K, N
        mean = self.values["Y"][index]  # K, N, P
        var = np.broadcast_to(self.values["bandwidth_y"] ** 2, mean.shape)
        return Predictive(mean=mean, var=var, log_weights=log_weights)


def training_sample(split, limit: int, setting: str, run) -> tuple[np.ndarray, np.ndarray]:
    """All training rows, or `limit` random ones of more, with a note."""
    if split.n_train < 2:
        raise UserError("a kernel density estimate needs at least two training rows")
    if split.n_train <= limit:
        return split.take_train(np.arange(split.n_train))
    rows = np.random.RandomState(run.seed).choice(split.n_train, limit, replace=False)
    run.note(f"kernels stand on {limit:,} random rows of {split.n_train:,}; model.{setting} takes more")
    return split.take_train(np.sort(rows))


def spread(A: np.ndarray) -> np.ndarray:
    """Standard deviations of the columns; 1 for a constant one."""
    sd = A.std(0)
    return np.where(sd > 0, sd, 1.0)


def warn_of_ties(h: float, run) -> None:
    """Repeated targets make the leave-one-out likelihood grow without end as the bandwidth falls."""
    if h < 1.01 * LOWEST:
        run.note(
            f"the bandwidth of y fell to its lower bound of {LOWEST:g} standard deviations: many targets are"
            " equal, so the density at them means little; model.bandwidth=silverman does not look at it"
        )
