"""Gaussian mixtures: density, its Monte Carlo error, distribution function.

Weights are optional. Without them the S components are equally likely samples; with them they are the exact
distribution, and there is no Monte Carlo error.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

LOG_2PI = np.log(2 * np.pi)


def component_logpdf(mean: np.ndarray, var: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """log N(y_n | mean_sn, diag var_sn), summed over the P outputs (S, N)."""
    return -0.5 * (LOG_2PI + np.log(var) + (Y - mean) ** 2 / var).sum(-1)


def log_mean_exp(logp: np.ndarray) -> np.ndarray:
    """log of the mean over the first axis of exp(logp), stable for very small densities."""
    top = logp.max(0)
    return top + np.log(np.exp(logp - top).mean(0))


def log_density(logp: np.ndarray, log_weights: np.ndarray | None = None) -> np.ndarray:
    """log of the mixture's density (N,) from its components' (S, N)."""
    if log_weights is None:
        return log_mean_exp(logp)
    weighted = logp + log_weights
    top = weighted.max(0)
    return top + np.log(np.exp(weighted - top).sum(0))


def average(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean over the first axis of values (S, ...), weighted by weights (S, ...) that sum to one over it."""
    return values.mean(0) if weights is None else (weights * values).sum(0)


def cdf(mean: np.ndarray, sd: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """P(y <= Y) under the mixture, per output: the PIT value when Y is the observation."""
    return average(ndtr((Y - mean) / sd), weights)


def loglik_influence(logp: np.ndarray) -> np.ndarray:
    """sum_n (p_sn / mean_s p_sn - 1) per component s (S,).

    Summed over chunks and given to `loglik_mc_se`. Components are followed by their index over all points,
    so that inner samples shared between points count as shared and independent ones as independent.
    """
    return (np.exp(logp - log_mean_exp(logp)) - 1).sum(1)


def loglik_mc_se(influence: np.ndarray, num_points: int) -> float:
    """Standard error of mean_n log mean_s p_sn over the draw of the S components (delta method)."""
    S = len(influence)
    return float(np.sqrt(((influence / num_points) ** 2).sum() / (S * (S - 1))))
