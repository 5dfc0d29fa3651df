"""The test log-likelihood alone, in a fraction of the time of all metrics, for traces of training."""

from __future__ import annotations

import numpy as np

from dgpbench.evaluate import mixture
from dgpbench.evaluate.classes import TINY
from dgpbench.evaluate.evaluation import Density, Predict


def mean_loglik(predict: Predict, split, samples: int, seed: int, density: Density) -> float:
    """Mean log p(y | x) over the test rows, in original units, as `evaluate` has it but for its chunks."""
    X, Y = split.X_test, split.Y_test
    scale = float(np.log(split.y_std).sum())
    terms = density(X, Y, samples, seed)
    if terms is not None:
        return float(mixture.log_density(terms).mean()) - scale
    predictive = predict(X, samples, seed)
    if predictive.kind == "probs":
        truth = predictive.probs[np.arange(len(Y)), Y[:, 0].astype(int)]
        return float(np.log(np.maximum(truth, TINY)).mean())
    return float(predictive.log_density(Y).mean()) - scale
