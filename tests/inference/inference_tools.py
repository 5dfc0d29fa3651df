"""Small models with random parameters for the tests of methods, and one run of a trainer."""

import numpy as np
import tensorflow as tf
from scipy import optimize

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import Trainer
from dgpbench.gp.parameters import unconstrain
from dgpbench.gp.start import build
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import batch_term, lower_bound, value_and_gradients

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


def mean_of_draws(bound, values, X, Y, count, jitter=JITTER):
    """Mean and standard error of a bound over so many keys."""
    raw, (Xc, Yc) = tensors(bound, values), columns(X, Y)

    @tf.function
    def one(key):
        noise = tf.random.stateless_normal((bound.noise_dim, bound.columns * len(X)), key, dtype=tf.float64)
        return lower_bound(bound, raw, Xc, Yc, noise, num_data=len(X), jitter=jitter, key=key)

    found = [float(one(tf.constant([7, i]))) for i in range(count)]
    return np.mean(found), np.std(found) / np.sqrt(count)


def evidence(values, X, Y, draws=40_000):
    """log p(Y) of two layers of width 1 over one input, identity mean inside: a mean over inner draws."""
    rng, noise = np.random.RandomState(5), float(values["likelihood/variance"])
    K = rbf(values, X, X) + (JITTER + float(values["layer0/kernel/white/variance"])) * np.eye(len(X))
    H = X[:, 0] + rng.randn(draws, len(X)) @ np.linalg.cholesky(K).T
    gap = (H[:, :, None] - H[:, None]) / values["layer1/kernel/rbf/lengthscales"]
    K = float(values["layer1/kernel/rbf/variance"]) * np.exp(-0.5 * gap**2) + noise * np.eye(len(X))
    squares = (Y[:, 0] * np.linalg.solve(K, np.tile(Y, (draws, 1, 1)))[..., 0]).sum(1)
    log_p = -0.5 * (squares + np.linalg.slogdet(2 * np.pi * K)[1])
    return np.log(np.mean(np.exp(log_p)))


def best_bound(bound, values, X, Y, parts, noise=None):
    """The largest value of a bound, on the same noise or without any, over the parameters whose names hold
    one of `parts`."""
    raw, (Xc, Yc) = tensors(bound, values), columns(X, Y)
    free = [n for n in raw if any(part in n for part in parts)]
    sizes = np.cumsum([raw[n].numpy().size for n in free])[:-1]
    noise = tf.zeros((max(bound.noise_dim, 1), len(X)), tf.float64) if noise is None else tf.constant(noise)

    @tf.function
    def at(*moved):
        here = raw | dict(zip(free, moved, strict=True))
        with tf.GradientTape() as tape:
            tape.watch(moved)
            value = lower_bound(bound, here, Xc, Yc, noise, num_data=len(X))
        return value, tape.gradient(value, moved)

    def loss(flat):
        moved = [p.reshape(raw[n].shape) for n, p in zip(free, np.split(flat, sizes), strict=True)]
        value, slopes = at(*map(tf.constant, moved))
        return -float(value), -np.concatenate([s.numpy().ravel() for s in slopes])

    start = np.concatenate([raw[n].numpy().ravel() for n in free])
    return -optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).fun


def gradient_gap(bound, values, X, Y, names, step=1e-5):
    """Largest difference between the gradient that training takes and central differences of the bound, on
    one key and noise, relative to the larger of 1 and the gradient."""
    raw, (Xc, Yc), key = tensors(bound, values), columns(X, Y), tf.constant([3, 4])
    shape = (max(bound.noise_dim, 1), bound.columns * len(X))
    noise = tf.constant(np.random.RandomState(0).randn(*shape))
    at = tf.function(lambda raw: lower_bound(bound, raw, Xc, Yc, noise, num_data=len(X), key=key))
    numerics = Numerics(
        JITTER, bound.forms(len(X), True), tf.float64, (), tf.constant(float(len(X)), tf.float64)
    )
    chunks, weight = [(Xc, Yc, noise, tf.constant(0))], tf.constant(1.0 / bound.repeats, tf.float64)
    _, gradients, _ = value_and_gradients(
        bound, raw, chunks, weight, batch_term(bound), numerics, trainable=names, key=key
    )
    worst = 0.0
    for name in names:
        value = np.array(raw[name])
        for place in np.ndindex(value.shape):
            ends = []
            for sign in (1, -1):
                moved = value.copy()
                moved[place] += sign * step
                ends.append(float(at(raw | {name: tf.constant(moved)})))
            slope, ours = (ends[0] - ends[1]) / (2 * step), float(np.array(gradients[name])[place])
            worst = max(worst, abs(slope - ours) / max(1.0, abs(slope)))
    return worst


def resumes_bitwise(words, X, Y):
    """Whether minibatch steps in blocks, one of them restored from a checkpoint, end in the same bits; and
    whether every raw parameter of q moved."""
    rows = np.random.RandomState(0).randint(0, len(X), (12, 6)).astype(np.int32)
    trainer = trainer_of(words, X, Y, batch=6)
    first = trainer.state()
    trainer.run(0, rows)
    whole = trainer.state()
    trainer.restore(first)
    trainer.run(0, rows[:5])
    kept = trainer.state()
    trainer.run(5, rows[5:7])
    trainer.restore(kept)
    for start, end in ((5, 8), (8, 12)):
        trainer.run(start, rows[start:end])
    q = [name for name in whole if name.startswith("raw/") and "/q_" in name]
    assert q and all(np.isfinite(v).all() for v in whole.values())
    moved = all(not np.array_equal(first[name], whole[name]) for name in q)
    return moved and all(np.array_equal(v, trainer.state()[name]) for name, v in whole.items())


def reference(values, X, Y, posterior, draws=2000):
    """Mean and standard error of the bound of two layers of width 1 over one input whose inducing points pass
    through, in NumPy and by inverses. `posterior(layer, K, mean)` gives q(u), mean (M,) the mean function."""
    rng, noise, out = np.random.RandomState(1), float(values["likelihood/variance"]), []
    white = float(values["layer0/kernel/white/variance"])
    Z, eye = values["layer0/Z"], np.eye(len(values["layer0/Z"]))
    K, k = rbf(values, Z, Z) + (JITTER + white) * eye, rbf(values, Z, X)
    m, S = posterior(0, K, Z[:, 0])
    a = np.linalg.solve(K, k)
    var = np.diag(rbf(values, X, X)) + white - (k * a).sum(0)
    for _ in range(draws):
        u = m + np.linalg.cholesky(S) @ rng.randn(len(m))
        H = (X[:, 0] + a.T @ u + np.sqrt(var) * rng.randn(len(X)))[:, None]
        Z2 = Z + u[:, None]
        K2, k2 = rbf(values, Z2, Z2, 1) + JITTER * eye, rbf(values, Z2, H, 1)
        m2, S2 = posterior(1, K2, 0.0 * u)
        a2 = np.linalg.solve(K2, k2)
        v = np.diag(rbf(values, H, H, 1)) - (k2 * a2).sum(0) + (a2 * (S2 @ a2)).sum(0)
        each = -0.5 * (np.log(2 * np.pi * noise) + ((Y[:, 0] - a2.T @ m2) ** 2 + v) / noise)
        out.append(each.sum() - gaussian_kl(m, S, K) - gaussian_kl(m2, S2, K2))
    return np.mean(out), np.std(out) / np.sqrt(draws)


def gaussian_kl(m, S, K):
    """KL(N(m, S) || N(0, K))."""
    quad = np.trace(np.linalg.solve(K, S)) + m @ np.linalg.solve(K, m)
    return 0.5 * (quad - len(m) + np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1])
