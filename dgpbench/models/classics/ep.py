"""Expectation propagation (EP) for two classes with the probit link: the full GP, and generalised FITC.

The prior is Gaussian, f = P u + e, u ~ N(0, I), e ~ N(0, rest), and every row has a site
exp(shift f - precision f^2 / 2) in place of its probit factor. For the full GP, P is the root of the
covariance and rest is 0. Generalised FITC (Naish-Guzman and Holden, 2008) has the prior Q + diag(K - Q): P is
the root of the low-rank part, and the same code costs N M^2.

"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import tf
from dgpbench.errors import import_gpflow
from dgpbench.gp.likelihoods.base import log_phi, phi
from dgpbench.models.classics.base import Classic
from dgpbench.models.classics.gpflow_models import Sparse

SETTLED = 1e-9  # largest change of a site, relative to 1 + its size, at which the sweeps end
MOST = 500  # sweeps
STEP = 0.9  # share of the way to its new value that a site goes


class Prior(NamedTuple):
    root: tf.Tensor  # P (N, M)
    rest: tf.Tensor  # variances of e (N,)


class Sites(NamedTuple):
    precision: tf.Tensor  # (N,)
    shift: tf.Tensor  # (N,)


class Posterior(NamedTuple):
    """q given the sites: moments of each f_n, and q(u) = N(L^-T c, L^-T L^-1)."""

    mean: tf.Tensor
    var: tf.Tensor
    L: tf.Tensor  # (M, M)
    c: tf.Tensor  # (M,)


def posterior(prior: Prior, sites: Sites) -> Posterior:
    gain = 1.0 / (1.0 + prior.rest * sites.precision)
    scaled = (gain * sites.precision)[:, None] * prior.root
    eye = tf.eye(tf.shape(prior.root)[1], dtype=prior.root.dtype)
    L = tf.linalg.cholesky(eye + tf.matmul(prior.root, scaled, transpose_a=True))
    A = tf.linalg.triangular_solve(L, tf.transpose(prior.root))
    c = tf.linalg.matvec(A, gain * sites.shift)
    mean = gain * (tf.linalg.matvec(A, c, transpose_a=True) + prior.rest * sites.shift)
    var = gain * (prior.rest + gain * tf.reduce_sum(tf.square(A), 0))
    return Posterior(mean, var, L, c)


def cavity(q: Posterior, sites: Sites) -> tuple[tf.Tensor, tf.Tensor]:
    """Moments of each q(f_n) without its own site."""
    var = 1.0 / (1.0 / q.var - sites.precision)
    return var * (q.mean / q.var - sites.shift), var


def tilted(mean: tf.Tensor, var: tf.Tensor, sign: tf.Tensor, epsilon: float) -> tuple[tf.Tensor, ...]:
    """log Z of N(f; mean, var) p(y | f), and its first and negative second derivative in the mean."""
    spread = tf.sqrt(1.0 + var)
    z = sign * mean / spread
    log_Z = tf.math.log(epsilon + (1.0 - 2.0 * epsilon) * phi(z)) if epsilon else log_phi(z)
    height = -0.5 * tf.square(z) - 0.5 * math.log(2.0 * math.pi) + math.log1p(-2.0 * epsilon)
    slope = sign * tf.exp(height - log_Z) / spread
    return log_Z, slope, slope * (slope + mean / (1.0 + var))


def renewed(prior: Prior, sites: Sites, sign: tf.Tensor, epsilon: float) -> Sites:
    """The sites that match the moments of their tilted distributions, all at once. One whose cavity is no
    distribution stays."""
    mean, var = cavity(posterior(prior, sites), sites)
    _, slope, curvature = tilted(mean, var, sign, epsilon)
    left = 1.0 - var * curvature
    new = Sites(curvature / left, (slope + mean * curvature) / left)
    proper = (var > 0.0) & (left > 0.0)
    return Sites(*(tf.where(proper, b, a) for a, b in zip(sites, new, strict=True)))


def change(old: Sites, new: Sites) -> tf.Tensor:
    """The largest change of a site, relative to 1 + its size."""
    parts = [tf.reduce_max(tf.abs(b - a) / (1.0 + tf.abs(a))) for a, b in zip(old, new, strict=True)]
    return tf.maximum(*parts)


def settle(prior: Prior, sites: Sites, sign: tf.Tensor, epsilon: float) -> Sites:
    """Sites at the fixed point. A sweep that moves them further than the one before shortens the next."""

    def body(sites, before, step):
        new = renewed(prior, sites, sign, epsilon)
        moved = change(sites, new)
        step = tf.where(moved > before, tf.maximum(tf.cast(0.1, step.dtype), 0.7 * step), step)
        return Sites(*(a + step * (b - a) for a, b in zip(sites, new, strict=True))), moved, step

    def moving(sites, moved, step):
        return moved > SETTLED

    dtype = prior.root.dtype
    start = sites, tf.constant(math.inf, dtype), tf.constant(STEP, dtype)
    return tf.while_loop(moving, body, start, maximum_iterations=MOST)[0]


def log_evidence(prior: Prior, sites: Sites, sign: tf.Tensor, epsilon: float) -> tf.Tensor:
    """EP's log p(y). Its gradient in the prior holds the sites and cavities: exact at the fixed point."""
    q = posterior(prior, sites)
    own = 1.0 + prior.rest * sites.precision
    joint = 0.5 * tf.reduce_sum(tf.square(q.c)) - tf.reduce_sum(tf.math.log(tf.linalg.diag_part(q.L)))
    joint += 0.5 * tf.reduce_sum(prior.rest * tf.square(sites.shift) / own - tf.math.log(own))
    mean, var = cavity(q, sites)
    log_Z, _, _ = tilted(mean, var, sign, epsilon)
    each = log_Z + _log_normaliser(mean, var) - _log_normaliser(q.mean, q.var)
    return joint + tf.stop_gradient(tf.reduce_sum(each))


def _log_normaliser(mean: tf.Tensor, var: tf.Tensor) -> tf.Tensor:
    return 0.5 * (tf.square(mean) / var + tf.math.log(var))


class FullEP(tf.Module):
    """Kernel, rows and sites. The sites of one evaluation are where the next one starts."""

    def __init__(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray], epsilon: float):
        super().__init__()
        self.kernel, self.likelihood, self.epsilon = kernel, likelihood, epsilon
        self.X, self.sign = tf.constant(values["X"]), tf.constant(2.0 * values["Y"][:, 0] - 1.0)
        start = values["sites/precision"], values["sites/shift"]
        self.sites = Sites(*(tf.Variable(v, trainable=False) for v in start))

    def whitened(self, X: tf.Tensor) -> tf.Tensor:
        """P (len(X), M) of rows beside the training rows."""
        cross = self.kernel.K(self.inducing(), X)
        return tf.linalg.matrix_transpose(tf.linalg.triangular_solve(self.root(), cross))

    def inducing(self) -> tf.Tensor:
        return self.X

    def root(self) -> tf.Tensor:
        """Root of the covariance at the inducing inputs."""
        gpflow = import_gpflow()

        K = self.kernel.K(self.inducing())
        return tf.linalg.cholesky(K + gpflow.config.default_jitter() * tf.eye(tf.shape(K)[0], dtype=K.dtype))

    def prior(self) -> Prior:
        return Prior(self.root(), tf.zeros_like(self.sign))

    def training_loss(self) -> tf.Tensor:
        """Minus EP's log evidence, at sites that have settled."""
        prior = self.prior()
        held = Prior(*map(tf.stop_gradient, prior))
        sites = settle(held, self.held_sites(), self.sign, self.epsilon)
        loss = -log_evidence(prior, Sites(*map(tf.stop_gradient, sites)), self.sign, self.epsilon)
        for variable, value in zip(self.sites, sites, strict=True):  # afresh after a failure
            variable.assign(tf.where(tf.math.is_finite(loss), value, tf.zeros_like(value)))
        return loss

    def held_sites(self) -> Sites:
        return Sites(*(v.read_value() for v in self.sites))

    def predict_f(self, X: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        q, P = posterior(self.prior(), self.held_sites()), self.whitened(tf.constant(X))
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
        sites = {f"sites/{name}": np.zeros(len(X)) for name in Sites._fields}
        return super().own_initial(X, gps, seed) | sites

    def own_values(self) -> dict[str, np.ndarray]:
        sites = {f"sites/{name}": v.numpy() for name, v in self.model.sites._asdict().items()}
        return super().own_values() | sites

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        return self.kind(kernel, likelihood, values, self.likelihood.epsilon)

    def fit(self, split, run: RunContext) -> dict[str, Any]:
        result = super().fit(split, run)
        model = self.model
        new = renewed(model.prior(), model.held_sites(), model.sign, model.epsilon)
        moved = float(change(model.held_sites(), new))
        if moved > 1e-6:
            run.note(f"EP has not settled: one more sweep moves a site by {moved:.1e} of 1 + its size")
        return result | {"site_change": moved}


class SparseEP(FullEP):
    def __init__(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray], epsilon: float):
        from gpflow.inducing_variables import InducingPoints

        super().__init__(kernel, likelihood, values, epsilon)
        self.inducing_variable = InducingPoints(values["Z"])

    def inducing(self) -> tf.Tensor:
        return self.inducing_variable.Z

    def prior(self) -> Prior:
        P = self.whitened(self.X)
        rest = self.kernel.K_diag(self.X) - tf.reduce_sum(tf.square(P), 1)
        return Prior(P, tf.maximum(rest, 0.0))


class GFITC(EPGPC, Sparse):
    """EP at a cost of N M^2, with Z = X that of the full GP."""

    evidence_kind = "EP's log evidence of FITC's model, which is no bound"
    instead = "model=sgp, which trains on minibatches"
    kind = SparseEP
    numbers = Sparse.numbers
