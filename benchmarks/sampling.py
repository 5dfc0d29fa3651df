"""Effective samples per second of SGPMC, ours beside GPflow's, in turns: the same target, starts, sampler,
step size and trajectory length, on the point processes of Matthews' thesis.

A turn is a chain of its own from a draw of the Gaussian fit, the same for every system; its first
trajectories are neither timed nor counted. Effective samples are those of all chains together, so that chains
that stay apart count for little, and their error is the jackknife's over chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tables import Table

CASES = {"coal": "matthews2016_coal_mcmc", "pines": "matthews2016_pines"}  # dataset: experiment
SYSTEMS: dict[str, tuple[str, ...]] = {  # settings of ours beside GPflow's
    "dgpbench": ("precision=float64", "inference.precondition=false"),
    "dgpbench-mixed": ("precision=mixed", "inference.precondition=false"),
}
GPFLOW = "gpflow"
STEP, LEAPFROG = {"coal": 0.05, "pines": 0.05}, {"coal": 40, "pines": 20}
START = 500  # steps of the Gaussian fit that all begin from
BURN_IN = 0.25  # trajectories before a turn, as a share of its own
NAMES = ("layer0/q_mu", "layer0/kernel/rbf/lengthscales", "layer0/kernel/rbf/variance")
JITTER = 1e-6  # GPflow's


class System(NamedTuple):
    begin: Callable[[int], None]  # puts the chain at the start of that number
    run: Callable[[int], np.ndarray]  # so many trajectories: states (S, coordinates), log theta last


def measure(
    cases: Sequence[str], systems: Sequence[str], rounds: int, turn: int, threads: int, note
) -> list[dict]:
    """One row for each case and system: seconds and effective samples over all its turns."""
    from dgpbench.engine.platform import set_threads

    set_threads(threads, inside=False)
    rows = []
    for case in cases:
        made: dict[str, System] = {}
        burn_in, start = max(2, int(BURN_IN * turn)), None
        for system in systems:
            made[system], start = _ours(case, system, max(turn, burn_in), start)
        made[GPFLOW] = _theirs(case, start)
        for system in made.values():
            system.begin(0)
            system.run(2)  # compiles
            system.run(2)  # TensorFlow Probability's loop compiles once more for the state that it returned
        states: dict[str, list] = {name: [] for name in made}
        wall, cpu = dict.fromkeys(made, 0.0), dict.fromkeys(made, 0.0)
        for i in range(rounds):
            for name, system in made.items():
                system.begin(i)
                system.run(burn_in)
                began, cpu_began = time.perf_counter(), time.process_time()
                states[name].append(system.run(turn))
                wall[name] += time.perf_counter() - began
                cpu[name] += time.process_time() - cpu_began
            note(f"{case}: round {i + 1} of {rounds}")
        rows += [_row(case, name, np.stack(states[name]), wall[name], cpu[name]) for name in made]
    return rows


def _row(case: str, system: str, states: np.ndarray, wall: float, cpu: float) -> dict:
    """Of chains (rounds, S, coordinates); the least effective coordinate decides. `moved` is the share of
    trajectories that were accepted."""
    from dgpbench.inference.mixing import split_rhat

    count = states.shape[0] * states.shape[1]
    least, error = _effective(states)
    theta, theta_error = _effective(states[..., -2:])
    return {
        "case": case,
        "system": system,
        "step": STEP[case],
        "leapfrog": LEAPFROG[case],
        "chains": len(states),
        "trajectories": count,
        "moved": float((np.diff(states[..., 0], axis=1) != 0).mean()),
        "rhat": float(split_rhat(states).max()),
        "effective": least,
        "effective_error": error,
        "effective_theta": theta,
        "effective_theta_error": theta_error,
        "mean_log_theta": states[..., -2:].mean((0, 1)).tolist(),
        "sd_log_theta": states[..., -2:].std((0, 1)).tolist(),
        "seconds": wall,
        "cpu_seconds": cpu,
        "effective_per_second": least / wall,
        "effective_per_cpu_second": least / cpu,
        "ms_per_trajectory": 1e3 * cpu / count,
    }


def _effective(states: np.ndarray) -> tuple[float, float]:
    """Effective samples of the worst coordinate, and the jackknife's error over chains."""
    from dgpbench.inference.mixing import effective_samples

    each = effective_samples(states)
    worst, count = int(each.argmin()), len(states)
    if count < 3:
        return float(each[worst]), float("nan")
    one = states[..., worst]
    without = [effective_samples(np.delete(one, i, 0)) * count / (count - 1) for i in range(count)]
    return float(each[worst]), float(np.sqrt((count - 1) * np.var(without)))


def table(rows: Sequence[dict]) -> Table:
    """Rates and their ratios to GPflow's in the same case."""
    theirs = {row["case"]: row for row in rows if row["system"] == GPFLOW}
    lines = []
    for row in rows:
        other = theirs[row["case"]]
        ratio = row["effective_per_cpu_second"] / other["effective_per_cpu_second"]
        speed = other["ms_per_trajectory"] / row["ms_per_trajectory"]
        numbers = (row["ms_per_trajectory"], row["moved"], row["rhat"], row["effective_per_cpu_second"])
        ms, moved, rhat, rate = (f"{x:.3g}" for x in numbers)
        effective = f"{row['effective']:.0f} +- {row['effective_error']:.0f}"
        error = ratio * np.hypot(*(one["effective_error"] / one["effective"] for one in (row, other)))
        over = f"{ratio:.2f} +- {error:.2f}" if row is not other else "1"
        line = [row["case"], row["system"], str(row["trajectories"]), moved, rhat, effective]
        lines.append([*line, ms, f"{speed:.2f}", rate, over])
    heads = ["case", "system", "trajectories", "accepted", "R-hat", "effective", "ms a trajectory"]
    heads += ["speed over GPflow", "effective a CPU second", "that over GPflow"]
    return Table("Effective samples of SGPMC beside GPflow's", heads, lines)


# ---- ours -----------------------------------------------------------------------------------------------


def _ours(case: str, system: str, count: int, start: dict | None) -> tuple[System, dict]:
    """Our chain, of at most so many trajectories between two looks, and the Gaussian fit that it starts from:
    `start`, where there is one."""
    from dgpbench.config import compose
    from dgpbench.config.classes import create_method
    from dgpbench.data import load_split
    from dgpbench.engine.spec import step_spec
    from dgpbench.engine.trainer import Trainer
    from dgpbench.gp import likelihoods
    from dgpbench.gp.parameters import unconstrain
    from dgpbench.gp.start import build

    chain = [f"inference.step={STEP[case]}", "inference.accept=null", f"inference.leapfrog={LEAPFROG[case]}"]
    chain += ["inference.chains=1", "inference.burn_in=1", "inference.thinning=1", f"inference.kept={count}"]
    steps = [f"inference.start.steps={START}", f"budget.steps={START + count + 2}"]
    words = [f"experiment={CASES[case]}", f"dataset={case}", "threads=1", *chain, *steps, *SYSTEMS[system]]
    cfg = compose(words)
    split = load_split(cfg)
    X, Y = split.X_train, split.Y_train
    likelihood = likelihoods.choose(cfg, split)
    model, values, fixed, _ = build(cfg, X, Y, 0, len(X), likelihood)
    method = create_method(cfg)
    values |= {name: v for name, v in (start or {}).items() if name in values}
    bound = method.bound(model).on_rows(values, X)
    raw = unconstrain(values, bound.constraints())
    spec = step_spec(cfg, bound, method.update(bound), raw, fixed, len(X), True, 1, "/CPU:0")
    trainer = Trainer(spec)
    trainer.reset(raw, method.rates(), seed=0, num_data=len(X), jitter=JITTER, data=(X, Y))
    if start is None:
        trainer.run(0, np.zeros((START, 0), np.int32))
        start = {name: v for name, v in trainer.values().items() if name != "jitter"}
        start |= {"X": X, "Y": Y, "bin_size": np.asarray(split.bin_size), "model": model}
    done, slots = START, trainer.oracle.slots
    trainer.run(done, np.zeros((2, 0), np.int32))  # the first takes the step size from the config
    done += 2

    def begin(number: int) -> None:
        theta = unconstrain({name: start[name] for name in NAMES[1:]}, bound.constraints())
        for name, value in {NAMES[0]: first_outputs(start, number), **theta}.items():
            slots[f"chain/{name}"].assign(value[None])

    def run(trajectories: int) -> np.ndarray:
        nonlocal done
        trainer.run(done, np.zeros((trajectories, 0), np.int32))
        places = (np.arange(done, done + trajectories) - START - 1) % count
        done += trajectories
        kept = [slots[f"kept/{name}"].numpy()[0][places] for name in NAMES]
        return np.concatenate([k.reshape(len(k), -1) for k in kept], 1)

    return System(begin, run), start


def first_outputs(start: dict[str, Any], number: int) -> np.ndarray:
    """A draw of q(u) (1, M), whitened, by its number."""
    noise = np.random.RandomState(number).randn(*start["layer0/q_mu"].shape)
    return start["layer0/q_mu"] + np.einsum("pij,pj->pi", start["layer0/q_sqrt"], noise)


# ---- GPflow's -------------------------------------------------------------------------------------------


def _theirs(case: str, start: dict[str, Any]) -> System:
    """TensorFlow Probability's HMC over GPflow's SGPMC, as its documentation runs it."""
    import gpflow
    import tensorflow as tf
    import tensorflow_probability as tfp

    from dgpbench.config import compose
    from dgpbench.gp.parameters import scope

    priors = compose([f"experiment={CASES[case]}", f"dataset={case}"])["model"]["priors"]
    kernel = gpflow.kernels.SquaredExponential()
    for name, field in (("lengthscales", "lengthscale"), ("variance", "kernel_variance")):
        prior = tfp.distributions.Gamma(*map(np.float64, priors[field][1:]))
        value = np.reshape(start[f"layer0/kernel/rbf/{name}"], ())
        own = gpflow.Parameter(value, transform=tfp.bijectors.Exp(), prior=prior)
        setattr(kernel, name, own)
    likelihood = gpflow.likelihoods.Poisson(binsize=float(start["bin_size"]))
    data, Z = (start["X"], start["Y"]), start["layer0/Z"]
    model = gpflow.models.SGPMC(data, kernel, likelihood, inducing_variable=Z)
    gpflow.set_trainable(model.inducing_variable, False)
    first = scope({name: tf.constant(v) for name, v in start.items() if name.startswith("layer0/")}, "layer0")
    ours = np.linalg.cholesky(start["model"].layers[0].gram(first, JITTER))
    theirs = np.linalg.cholesky(kernel(Z) + JITTER * np.eye(len(Z)))
    helper = gpflow.optimizers.SamplingHelper(
        model.log_posterior_density, [model.V, kernel.lengthscales, kernel.variance]
    )
    hmc = tfp.mcmc.HamiltonianMonteCarlo(helper.target_log_prob_fn, np.float64(STEP[case]), LEAPFROG[case])

    @tf.function
    def sample(count, state, results, seed):
        return tfp.mcmc.sample_chain(
            count, state, results, kernel=hmc, return_final_kernel_results=True, trace_fn=None, seed=seed
        )

    theta = [tf.constant(p.unconstrained_variable) for p in (kernel.lengthscales, kernel.variance)]
    state: list = []
    results, turns = None, 0

    def begin(number: int) -> None:
        nonlocal state, results
        V = np.linalg.solve(theirs, ours @ first_outputs(start, number).T)  # the same function
        state = [tf.constant(V), *theta]
        results = hmc.bootstrap_results(state)

    def run(trajectories: int) -> np.ndarray:
        nonlocal state, results, turns
        found = sample(tf.constant(trajectories), state, results, tf.constant([0, turns]))
        state, results, turns = [part[-1] for part in found.all_states], found.final_kernel_results, turns + 1
        return np.concatenate([np.reshape(part, (trajectories, -1)) for part in found.all_states], 1)

    return System(begin, run)
