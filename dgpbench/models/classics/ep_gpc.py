"""Binary classification with the full GP and the probit link by expectation propagation (EP)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import tf
from dgpbench.models.classics import ep
from dgpbench.models.classics.base import Classic


class FullEP(tf.Module):
    """Kernel, rows and sites. The sites of one evaluation are where the next one starts."""

    def __init__(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray], epsilon: float):
        super().__init__()
        self.kernel, self.likelihood, self.epsilon = kernel, likelihood, epsilon
        self.X, self.sign = tf.constant(values["X"]), tf.constant(2.0 * values["Y"][:, 0] - 1.0)
        start = values["sites/precision"], values["sites/shift"]
        self.sites = ep.Sites(*(tf.Variable(v, trainable=False) for v in start))

    def whitened(self, X: tf.Tensor) -> tf.Tensor:
        """P (len(X), M) of rows beside the training rows."""
        cross = self.kernel.K(self.inducing(), X)
        return tf.linalg.matrix_transpose(tf.linalg.triangular_solve(self.root(), cross))

    def inducing(self) -> tf.Tensor:
        return self.X

    def root(self) -> tf.Tensor:
        """Root of the covariance at the inducing inputs."""
        import gpflow

        K = self.kernel.K(self.inducing())
        return tf.linalg.cholesky(K + gpflow.config.default_jitter() * tf.eye(tf.shape(K)[0], dtype=K.dtype))

    def prior(self) -> ep.Prior:
        return ep.Prior(self.root(), tf.zeros_like(self.sign))

    def training_loss(self) -> tf.Tensor:
        """Minus EP's log evidence, at sites that have settled."""
        prior = self.prior()
        held = ep.Prior(*map(tf.stop_gradient, prior))
        sites = ep.settle(held, self.held_sites(), self.sign, self.epsilon)
        loss = -ep.log_evidence(prior, ep.Sites(*map(tf.stop_gradient, sites)), self.sign, self.epsilon)
        for variable, value in zip(self.sites, sites, strict=True):  # afresh after a failure
            variable.assign(tf.where(tf.math.is_finite(loss), value, tf.zeros_like(value)))
        return loss

    def held_sites(self) -> ep.Sites:
        return ep.Sites(*(v.read_value() for v in self.sites))

    def predict_f(self, X: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        q, P = ep.posterior(self.prior(), self.held_sites()), self.whitened(tf.constant(X))
        A = tf.linalg.triangular_solve(q.L, tf.transpose(P))  # M, N
        mean = tf.linalg.matvec(A, q.c, transpose_a=True)
        rest = self.kernel.K_diag(tf.constant(X)) - tf.reduce_sum(tf.square(P), 1)
        return mean[:, None], (rest + tf.reduce_sum(tf.square(A), 0))[:, None]


class EPGPC(Classic):
    """EP with one site for each training row, named sites/precision and sites/shift among the parameters."""

    tasks = ("binary",)
    evidence_kind = "log evidence of expectation propagation, which is no bound"
    instead = "model=gfitc or sgp, which are sparse"
    kind: type[FullEP] = FullEP

    def numbers(self, rows: int, gps: int) -> float:
        return 27.0 * rows**2  # measured: 26

    def own_initial(self, X: np.ndarray, gps: int, seed: int) -> dict[str, np.ndarray]:
        sites = {f"sites/{name}": np.zeros(len(X)) for name in ep.Sites._fields}
        return super().own_initial(X, gps, seed) | sites

    def own_values(self) -> dict[str, np.ndarray]:
        sites = {f"sites/{name}": v.numpy() for name, v in self.model.sites._asdict().items()}
        return super().own_values() | sites

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        return self.kind(kernel, likelihood, values, self.likelihood.epsilon)

    def fit(self, split, run: RunContext) -> dict[str, Any]:
        result = super().fit(split, run)
        model = self.model
        new = ep.renewed(model.prior(), model.held_sites(), model.sign, model.epsilon)
        moved = float(ep.change(model.held_sites(), new))
        if moved > 1e-6:
            run.note(f"EP has not settled: one more sweep moves a site by {moved:.1e} of 1 + its size")
        return result | {"site_change": moved}
