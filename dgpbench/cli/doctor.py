"""`dgpbench doctor`: is this machine ready? Prints one line per check; exit 1 if something is broken."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import numpy as np

from dgpbench import __version__

OK, WARN, BROKEN = "ok", "note", "BROKEN"
PACKAGES = (
    "tensorflow",
    "tensorflow-probability",
    "gpflow",
    "hydra-core",
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "rich",
    "pyarrow",
)
FAST_FLOAT64 = ("P100", "V100", "A100", "A30", "H100", "H200", "GH200", "B200", "MI")
THREAD_LIMITS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
LOW_SPACE = 2 << 30
COMPILE_SECONDS = 120
TF32_ERROR = 3e-5  # float32 has 1e-6, TF32 3e-4
Check = tuple[str, str, str]  # status, name, text


def add_parser(subparsers) -> None:
    subparsers.add_parser(
        "doctor",
        help="check this machine and installation",
        description="Check versions, devices, threads, folders, the data mirror, a small model's numbers "
        "against a closed form, and the compiler by compiling and timing a training step. Exit code 1 if "
        "something is broken.",
    )


def main(args: argparse.Namespace) -> int:
    broken = 0
    for check in (_versions, _folders, _mirror, _machine, _self_check, _training_step):
        for status, name, text in _guarded(check):
            broken += status == BROKEN
            print(f"{status:<6}  {name:<22}  {text}", flush=True)
    print("all well" if not broken else f"{broken} broken", flush=True)
    return 1 if broken else 0


def _guarded(check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """A check that itself fails is a finding, not a traceback."""
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - whatever is wrong with an installation is what we report
        text = " ".join(str(error).split())
        yield BROKEN, check.__name__.strip("_").replace("_", "-"), f"{type(error).__name__}: {text}"


def _versions() -> Iterator[Check]:
    supported = (3, 11) <= sys.version_info < (3, 14)
    yield OK if supported else BROKEN, "python", f"{platform.python_version()} (3.11 to 3.13 are supported)"
    yield OK, "dgpbench", f"{__version__} on {platform.platform(terse=True)} {platform.machine()}"
    for package in PACKAGES:
        try:
            yield OK, package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield BROKEN, package, "not installed; install dgpbench again: pip install dgpbench"


def _paths() -> dict:
    from dgpbench.config import compose

    return compose()["paths"]


def _folders() -> Iterator[Check]:
    paths = _paths()
    for name in ("results", "datasets"):
        folder = Path(paths[name]).absolute()
        existing = next(p for p in (folder, *folder.parents) if p.exists())
        try:
            with tempfile.TemporaryFile(dir=existing) as handle:
                handle.write(b"dgpbench")
        except OSError as error:
            yield BROKEN, name, f"{folder} cannot be written ({error.strerror}); set paths.{name}=DIR"
            continue
        free = shutil.disk_usage(existing).free
        status = OK if free > LOW_SPACE else WARN
        yield status, name, f"{folder} can be written, {free / 2**30:.0f} GB free"


def _mirror() -> Iterator[Check]:
    mirror = _paths()["mirror"]
    if not mirror:
        yield OK, "mirror", "none set (DGPBENCH_MIRROR or paths.mirror); data come from packages and upstream"
    elif "://" in mirror:
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        try:
            urlopen(Request(mirror, method="HEAD"), timeout=5).close()
        except HTTPError as error:  # it answers, if not for its own base address
            yield OK, "mirror", f"{mirror} answers ({error.code})"
        except (OSError, ValueError) as error:
            yield BROKEN, "mirror", f"{mirror} does not answer ({error})"
        else:
            yield OK, "mirror", f"{mirror} answers"
    else:
        found = Path(mirror).expanduser().is_dir()
        yield OK if found else BROKEN, "mirror", f"{mirror} is {'a folder' if found else 'no folder'}"


def _machine() -> Iterator[Check]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [f", {name}={os.environ[name]}" for name in THREAD_LIMITS if name in os.environ]
    yield OK, "threads", f"{usable} of {os.cpu_count()} cores usable" + "".join(limits)
    began = time.perf_counter()
    from dgpbench.engine.platform import MALLOC_TUNED, tf

    yield OK, "start-up", f"TensorFlow imported in {time.perf_counter() - began:.1f} s"
    if MALLOC_TUNED:
        yield OK, "malloc", "large buffers are kept between steps"
    else:
        yield WARN, "malloc", "not tuned on this C library: large batches are slower"
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        yield OK, "devices", "CPU only (a GPU needs: pip install 'dgpbench[gpu]')"
    for gpu in gpus:
        name = tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name)
        yield OK, "devices", str(name)
        if not any(word in name for word in FAST_FLOAT64):
            yield WARN, "float64", f"{name} may be slow in float64; precision=mixed is there for such cards"
    yield from _products(tf, [f"/GPU:{i}" for i in range(len(gpus))])


def _products(tf, devices: list[str]) -> Iterator[Check]:
    """Whether float32 products have all their bits, by multiplying: TF32 keeps 10 of 23."""
    import numpy as np

    A = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    exact = A.astype(np.float64) @ A.astype(np.float64)
    for device in devices:
        with tf.device(device):
            error = float(np.abs(tf.matmul(A, A).numpy() - exact).max() / np.abs(exact).max())
        text = f"{device}: float32 products are right to {error:.0e}"
        if error < TF32_ERROR:
            yield OK, "tf32", text
        else:
            yield BROKEN, "tf32", f"{text}: TF32 is on; set NVIDIA_TF32_OVERRIDE=0 before Python starts"


def _self_check() -> Iterator[Check]:
    checks = {
        "self-check": ("sparse GP bound", sparse_gp_bounds),
        "self-check of GPflow": ("exact GP evidence", exact_gp_evidence),
        "self-check of TFP": ("end of a leapfrog trajectory", leapfrog),
    }
    for name, (what, check) in checks.items():
        began = time.perf_counter()
        got, exact = check()
        text = f"{what} {got:.8f}, closed form {exact:.8f}, {time.perf_counter() - began:.1f} s"
        yield OK if abs(got - exact) < 1e-6 * abs(exact) else BROKEN, name, text


def _training_step() -> Iterator[Check]:
    """Compile and time a training step, in a separate process that a broken compiler may end."""
    from dgpbench.sweep.process import SAFE_PATH

    package = str(Path(__file__).resolve().parents[2])
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, *SAFE_PATH, "-m", "dgpbench.cli.doctor"]
    fix = "engine.xla=false trains without it, more slowly"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, env=env)
    except subprocess.TimeoutExpired:
        yield BROKEN, "compiler", f"XLA compiled no training step in {COMPILE_SECONDS} s; {fix}"
        return
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        how = f"exit code {done.returncode}: {said[-1][:300]}"
        yield BROKEN, "compiler", f"XLA cannot compile a training step ({how}); {fix}"
        return
    got = json.loads(done.stdout.splitlines()[-1])
    timed = f"{got['milliseconds']:.2f} ms per step after {got['compile']:.1f} s of compilation"
    numbers = f"bound {got['compiled']:.8f}, without XLA {got['plain']:.8f}"
    right = abs(got["compiled"] - got["plain"]) < 1e-6 * abs(got["plain"])
    yield OK if right else BROKEN, "compiler", f"XLA training step on {got['device']}: {timed}; {numbers}"


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
