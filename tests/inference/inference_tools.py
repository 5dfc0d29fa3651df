"""Small models with random parameters for the tests of methods, and one run of a trainer."""

import numpy as np
import tensorflow as tf

from dgpbench.config import compose
from dgpbench.config.targets import create_method
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import Trainer
from dgpbench.gp.parameters import unconstrain
from dgpbench.gp.start import build

JITTER = 1e-6


def data(N=20, D=1, P=1, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-2, 2, (N, D))
    return X, np.sin(2 * X[:, :1]) @ np.ones((1, P)) + 0.3 * rng.randn(N, P)


def model_of(cfg, X, Y, seed=0, noise=0.1, spread=0.3):
    """Structure and values with a random q(u) away from its start."""
    rng = np.random.RandomState(seed)
    model, values, fixed, _ = build(cfg, X, Y, seed)
    for name, v in values.items():
        if name.endswith("q_mu"):
            values[name] = spread * rng.randn(*v.shape)
        elif name.endswith("q_sqrt"):
            values[name] = 0.5 * np.eye(v.shape[-1]) + 0.1 * np.tril(rng.randn(*v.shape))
        elif name.endswith("white/variance"):
            values[name] = np.asarray(0.05)
    values["likelihood/variance"] = np.asarray(noise)
    return model, values, fixed


def tensors(bound, values):
    raw = unconstrain(values, bound.constraints())
    return {name: tf.constant(v, tf.float64) for name, v in raw.items()}


def columns(*arrays):
    return [tf.constant(np.ascontiguousarray(a.T)) for a in arrays]


def trainer_of(words, X, Y, values=None, fixed=None, seed=0, batch=None):
    """A trainer of the method that a command line names, ready to run on X, Y."""
    cfg = compose([*words, "threads=1"])
    model, start, own_fixed, _ = build(cfg, X, Y, seed)
    method = create_method(cfg)
    bound = method.bound(model)
    values = bound.initial(start | (values or {}))
    raw = unconstrain(values, bound.constraints())
    spec = StepSpec(
        bound=bound,
        update=method.update(bound),
        shapes=tuple((n, v.shape) for n, v in raw.items()),
        fixed=frozenset((own_fixed if fixed is None else fixed) & raw.keys()),
        batch=batch or len(X),
        full_batch=batch is None,
        precision=cfg["precision"],
        xla=False,
    )
    trainer = Trainer(spec)
    trainer.reset(raw, method.rates(), seed=seed, num_data=len(X), jitter=JITTER, data=(X, Y))
    return trainer


def rbf(values, A, B, layer=0):
    """k(A, B) for rows, in NumPy."""
    gap = (A[:, None] - B[None]) / values[f"layer{layer}/kernel/rbf/lengthscales"]
    return float(values[f"layer{layer}/kernel/rbf/variance"]) * np.exp(-0.5 * (gap**2).sum(-1))


def whitened_design(values, X, layer=0):
    """A = L^-1 k(Z, X) (M, N)."""
    Z = values[f"layer{layer}/Z"]
    L = np.linalg.cholesky(rbf(values, Z, Z, layer) + JITTER * np.eye(len(Z)))
    return np.linalg.solve(L, rbf(values, Z, X, layer))


def whitened_posterior(A, y, variances):
    """Mean and covariance of v ~ N(0, I) given y_n = a_n' v + N(0, variance_n)."""
    S = np.linalg.inv(np.eye(len(A)) + (A / variances) @ A.T)
    return S @ (A / variances) @ y, S
