"""Numbers computed twice: by this package's bound and by GPflow, and in closed form with NumPy."""

from __future__ import annotations

import json
import time

import numpy as np

N, M, JITTER = 40, 10, 1e-6
STEPS = 50  # over which a training step is timed


def sparse_gp_bounds() -> tuple[float, float]:
    """DSVI bound of a one-layer model at the optimal q(u), and the collapsed bound of Titsias (2009)."""
    from dgpbench.config import compose
    from dgpbench.engine.platform import tf
    from dgpbench.gp.parameters import unconstrain
    from dgpbench.gp.start import build
    from dgpbench.inference.bounds import VI
    from dgpbench.inference.gradients import lower_bound

    rng = np.random.RandomState(0)
    X = rng.randn(N, 2)
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.randn(N, 1)
    cfg = compose(["model=sgp", "inference=fast", f"model.num_inducing={M}"])
    model, values, *_ = build(cfg, X, Y, 0)
    Z = values["layer0/Z"]
    initial = ("kernel_variance", "lengthscale", "likelihood_variance")
    variance, scale, noise = (cfg["model"][name] for name in initial)

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return variance * np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / scale**2)

    A = np.linalg.solve(np.linalg.cholesky(kernel(Z, Z) + JITTER * np.eye(M)), kernel(Z, X))  # M, N
    S = np.linalg.inv(np.eye(M) + A @ A.T / noise)
    values["layer0/q_mu"] = (S @ A @ Y / noise).T
    values["layer0/q_sqrt"] = np.linalg.cholesky(S)[None]
    bound = VI(model)
    raw = {name: tf.constant(value) for name, value in unconstrain(values, bound.constraints()).items()}
    ours = lower_bound(
        bound,
        raw,
        tf.constant(X.T),
        tf.constant(Y.T),
        tf.zeros((0, N), tf.float64),
        num_data=N,
        jitter=tf.constant(JITTER, tf.float64),
    )

    Q = A.T @ A
    _, log_det = np.linalg.slogdet(Q + noise * np.eye(N))
    fit = (Y.T @ np.linalg.solve(Q + noise * np.eye(N), Y)).item()
    exact = -0.5 * (N * np.log(2 * np.pi) + log_det + fit + (N * variance - np.trace(Q)) / noise)
    return float(ours), float(exact)


def training_step() -> dict[str, float | str]:
    """Compile a training step of a sparse GP with XLA and time it.

    Returns
    -------
    dict
        `device`, seconds to `compile`, `milliseconds` of a compiled step, and the bound before the first step
        as the `compiled` step and as `plain` TensorFlow compute it.
    """
    from dgpbench.config import compose
    from dgpbench.config.classes import create_method
    from dgpbench.engine.platform import choose_device, tf
    from dgpbench.engine.spec import step_spec
    from dgpbench.engine.trainer import Trainer
    from dgpbench.gp.parameters import unconstrain
    from dgpbench.gp.start import build
    from dgpbench.inference.gradients import lower_bound

    rng = np.random.RandomState(0)
    X = rng.randn(N, 2)
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.randn(N, 1)
    cfg = compose(["model=sgp", "inference=fast", f"model.num_inducing={M}", "precision=float64"])
    model, values, fixed, _ = build(cfg, X, Y, 0)
    method = create_method(cfg)
    bound = method.bound(model)
    raw = unconstrain(values, bound.constraints())
    device = choose_device("auto")
    trainer = Trainer(step_spec(cfg, bound, method.update(bound), raw, fixed, N, True, 1, device))
    trainer.reset(raw, method.rates(), seed=0, num_data=N, jitter=JITTER, data=(X, Y))
    began = time.perf_counter()
    compiled = trainer.run(0, np.zeros((1, 0), np.int32))["bound_last"]
    middle = time.perf_counter()
    trainer.run(1, np.zeros((STEPS, 0), np.int32))
    ended = time.perf_counter()
    tensors = {name: tf.constant(value) for name, value in raw.items()}
    columns = tf.constant(X.T), tf.constant(Y.T), tf.zeros((0, N), tf.float64)
    jitter = tf.constant(JITTER, tf.float64)
    plain = lower_bound(bound, tensors, *columns, num_data=N, jitter=jitter)
    return {
        "device": device,
        "compile": middle - began,
        "milliseconds": 1000 * (ended - middle) / STEPS,
        "compiled": float(compiled),
        "plain": float(plain),
    }


def exact_gp_evidence() -> tuple[float, float]:
    """Log evidence of an exact GP by GPflow's GPR, as model=gpr has it, and in closed form."""
    from dgpbench.engine.platform import tf  # isort: skip  (before GPflow starts TensorFlow)
    import gpflow

    rng = np.random.RandomState(1)
    X = rng.randn(N, 2)
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.randn(N, 1)
    variance, scale, noise = 1.3, 0.9, 0.05
    kernel = gpflow.kernels.SquaredExponential(variance, scale)
    theirs = gpflow.models.GPR((tf.constant(X), tf.constant(Y)), kernel, noise_variance=noise)
    K = variance * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / scale**2) + noise * np.eye(N)
    fit = (Y.T @ np.linalg.solve(K, Y)).item()
    exact = -0.5 * (N * np.log(2 * np.pi) + np.linalg.slogdet(K)[1] + fit)
    return float(theirs.log_marginal_likelihood()), float(exact)


def leapfrog() -> tuple[float, float]:
    """Place after a trajectory of TensorFlow Probability's HMC in a standard normal, and by powers of the
    leapfrog map."""
    from dgpbench.engine.platform import tf  # isort: skip  (before TensorFlow Probability starts TensorFlow)
    import tensorflow_probability as tfp

    step, count, start = 0.3, 5, 0.7
    kernel = tfp.mcmc.UncalibratedHamiltonianMonteCarlo(
        lambda x: -0.5 * tf.square(x), tf.constant(step, tf.float64), count
    )
    first = tf.constant(start, tf.float64)
    end, results = kernel.one_step(first, kernel.bootstrap_results(first), seed=[0, 1])
    momentum = float(results.initial_momentum[0])
    once = np.array([[1 - step**2 / 2, step], [-step + step**3 / 4, 1 - step**2 / 2]])
    exact = np.linalg.matrix_power(once, count) @ [start, momentum]
    return float(end), float(exact[0])


if __name__ == "__main__":  # a process of its own: a broken compiler may end it
    print(json.dumps(training_step()))
