"""GPyTorch's documented deep GP: a kernel, inducing inputs and q(u) for each output, a linear mean, Adam."""

from __future__ import annotations

import math

import gpytorch
import numpy as np
import torch

from benchmarks.racing import shuffled
from benchmarks.steps.deep_gpytorch import Layer, set_threads
from benchmarks.stopwatch import Stopwatch

__all__ = ["race", "set_threads"]
PREDICT_ROWS = 1000


class Model(gpytorch.models.deep_gps.DeepGP):
    def __init__(self, inputs: int, width: int, M: int):
        super().__init__()
        self.hidden = Layer(inputs, width, torch.randn(width, M, inputs))
        self.last = Layer(width, None, torch.randn(M, width))
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x):
        return self.last(self.hidden(x))


def race(data: dict, settings: dict, seed: int, seconds: float) -> tuple[Stopwatch, str | None]:
    torch.set_default_dtype(getattr(torch, settings["precision"]))
    torch.manual_seed(seed)
    X, Y, X_test, Y_test = (
        torch.as_tensor(data[name], dtype=torch.get_default_dtype())
        for name in ("X", "Y", "X_test", "Y_test")
    )
    Y, Y_test = Y[:, 0], Y_test[:, 0]
    model = Model(X.shape[1], settings["width"] or X.shape[1], settings["num_inducing"]).train()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    elbo = gpytorch.mlls.VariationalELBO(model.likelihood, model, len(X))
    bound = gpytorch.mlls.DeepApproximateMLL(elbo)
    batches = shuffled(len(X), min(settings["batch"], len(X)), seed)

    def advance(steps: int) -> None:
        with gpytorch.settings.num_likelihood_samples(settings["samples"]):
            for _ in range(steps):
                rows = torch.as_tensor(next(batches))
                adam.zero_grad()
                loss = -bound(model(X[rows]), Y[rows])
                loss.backward()
                adam.step()

    def score() -> float:
        model.eval()
        parts, count = [], settings["test_samples"]
        with torch.no_grad(), gpytorch.settings.num_likelihood_samples(count):
            for first in range(0, len(X_test), PREDICT_ROWS):
                rows = slice(first, first + PREDICT_ROWS)
                each = model.likelihood.log_marginal(Y_test[rows], model(X_test[rows]))  # S, N
                parts.append((each.logsumexp(0) - math.log(count)).numpy())
        model.train()
        return float(np.concatenate(parts).mean())

    watch = Stopwatch(score, seconds)
    return watch, watch.run(advance)
