"""Models that do one thing wrong each."""

import numpy as np

from dgpbench.errors import Diverged, Interrupted, UserError
from dgpbench.evaluate.predictive import Predictive


class Good:
    """Predicts the training mean; the others break one part of it."""

    def __init__(self, cfg):
        pass

    def fit(self, split, run):
        return self  # as other libraries do; it says nothing about training

    def predict(self, X, samples, seed):
        return Predictive(mean=np.zeros((1, len(X), 2)), var=np.ones((1, len(X), 2)))

    def parameters(self):
        return {"nothing": np.zeros(0)}

    def load_parameters(self, values):
        pass


class Failing(Good):
    def fit(self, split, run):
        raise RuntimeError("no luck today\nsecond line")


class OutOfMemory(Good):
    def fit(self, split, run):
        raise MemoryError("too large")


class Diverging(Good):
    def fit(self, split, run):
        raise Diverged("the bound is not finite")


class Stopped(Good):
    def fit(self, split, run):
        raise Interrupted(15, 7)


class Refusing(Good):
    def fit(self, split, run):
        raise UserError("this model takes one input only")


class NotANumber(Good):
    def predict(self, X, samples, seed):
        return Predictive(mean=np.full((1, len(X), 2), np.nan), var=np.ones((1, len(X), 2)))


class NegativeVariance(Good):
    def predict(self, X, samples, seed):
        return Predictive(mean=np.zeros((1, len(X), 2)), var=-np.ones((1, len(X), 2)))


class WrongShape(Good):
    def predict(self, X, samples, seed):
        return Predictive(mean=np.zeros((1, len(X), 1)), var=np.ones((1, len(X), 1)))


class NotPlain(Good):
    def parameters(self):
        return {"tree": np.array([{"left": None}], dtype=object)}


class DrawsOnly(Good):
    def predict(self, X, samples, seed):
        return Predictive(draws=np.random.RandomState(seed).randn(samples, len(X), 2))


class Incomplete:
    def __init__(self, cfg):
        pass

    def fit(self, split, run):
        pass


class Broken(Good):
    def __init__(self, cfg):
        cfg.no_such_method()
