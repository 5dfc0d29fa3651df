"""How well chains mix: effective samples, by TensorFlow Probability, and split R-hat."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LEAST = 4  # states of a chain below which nothing can be said


def effective_samples(chains: np.ndarray) -> np.ndarray:
    """Effective samples of all chains (C, S, ...) together, for each coordinate (...).

    Chains that swing from one side to the other may count for more than their n = C S states, up to
    n log10(n): their autocorrelations nearly cancel, and what is left, of either sign, is noise.
    """
    import tensorflow as tf
    import tensorflow_probability as tfp

    states = tf.constant(np.swapaxes(chains, 0, 1))  # S, C, ...
    across = 1 if states.shape[1] > 1 else None
    found = tfp.mcmc.effective_sample_size(
        states, filter_beyond_positive_pairs=True, cross_chain_dims=across
    ).numpy()
    found, n = found if across else found[0], float(chains.shape[0] * chains.shape[1])
    return np.where(found <= 0.0, n * np.log10(n), np.minimum(found, n * np.log10(n)))


def split_rhat(chains: np.ndarray) -> np.ndarray:
    """Split R-hat (...) of chains (C, S, ...): 1 where halves of chains are alike. The usual root of a ratio
    of variances; TensorFlow Probability's potential_scale_reduction has no root."""
    half = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :half], chains[:, -half:]])
    within, between = halves.var(1, ddof=1).mean(0), halves.mean(1).var(0, ddof=1)
    return np.sqrt((half - 1) / half + between / within)


def mixing(chains: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Chains, draws of each, and over all coordinates the fewest effective samples and the largest R-hat."""
    C, S = next(iter(chains.values())).shape[:2]
    out: dict[str, float] = {"chains": C, "draws": S}
    if S < LEAST:
        return out
    out["effective"] = min(float(effective_samples(v).min()) for v in chains.values())
    out["rhat"] = max(float(split_rhat(v).max()) for v in chains.values())
    return {name: value for name, value in out.items() if np.isfinite(value)}
