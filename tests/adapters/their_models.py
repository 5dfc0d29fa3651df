"""Regression models as bayesian_benchmarks knows them: fit, predict, sample, and numpy's global generator."""

import numpy as np


class RegressionModel:
    """Ridge regression on a random half of the rows, so that the seed matters."""

    def __init__(self, is_test=False, seed=0):
        self.is_test, self.seed = is_test, seed

    def fit(self, X, Y):
        rows = np.random.permutation(len(X))[: len(X) // 2]
        self.w = np.linalg.solve(X[rows].T @ X[rows] + np.eye(X.shape[1]), X[rows].T @ Y[rows])
        self.var = np.var(Y - X @ self.w, 0)

    def predict(self, Xs):
        mean = Xs @ self.w
        return mean, np.ones_like(mean) * self.var

    def sample(self, Xs, num_samples):
        mean, var = self.predict(Xs)
        return mean + np.sqrt(var) * np.random.randn(num_samples, *mean.shape)


class OldModel(RegressionModel):
    """Before models took a seed; predicts a mixture of three Gaussians (S, N, D)."""

    def __init__(self, is_test=False):
        super().__init__(is_test)

    def predict(self, Xs):
        mean, var = super().predict(Xs)
        return np.stack([mean - 0.2, mean, mean + 0.2]), np.stack([var, var, var])


class Template(RegressionModel):
    """What is not written stands in the template and says so."""

    def predict(self, Xs):
        raise NotImplementedError

    def sample(self, Xs, num_samples):
        mean, var = RegressionModel.predict(self, Xs)
        return mean + np.sqrt(var) * np.random.randn(num_samples, *mean.shape)


class SampleOnly:
    def __init__(self, **options):
        self._model = RegressionModel(**options)

    def fit(self, X, Y):
        self._model.fit(X, Y)

    def sample(self, Xs, num_samples):
        return self._model.sample(Xs, num_samples)


class ClassificationModel:
    """Shares of the classes by nearest centre; three samples (S, N, K) of them if `sampled`."""

    sampled = False

    def __init__(self, K, is_test=False, seed=0):
        self.K = K

    def fit(self, X, Y):
        self.centres = np.stack([X[Y[:, 0] == k].mean(0) for k in range(self.K)])

    def predict(self, Xs):
        distance = ((Xs[:, None] - self.centres) ** 2).sum(-1)
        probs = np.exp(-3 * distance) / np.exp(-3 * distance).sum(1, keepdims=True)
        return np.stack([probs, probs**2 / (probs**2).sum(1, keepdims=True)]) if self.sampled else probs


class SampledClassificationModel(ClassificationModel):
    sampled = True
