"""Effective samples per second of SGPMC, ours beside GPflow's, in turns: the same target, start, sampler,
step size and trajectory length, on the point processes of Matthews' thesis."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dgpbench.perf.tables import Table

CASES = {"coal": "matthews2016_coal_mcmc", "pines": "matthews2016_pines"}  # dataset: experiment
SYSTEMS: dict[str, tuple[str, ...]] = {  # settings of ours beside GPflow's
    "dgpbench": ("precision=float64", "inference.precondition=false"),
    "dgpbench-mixed": ("precision=mixed", "inference.precondition=false"),
    "dgpbench-preconditioned": ("precision=float64", "inference.precondition=true"),
}
GPFLOW = "gpflow"
STEP, LEAPFROG = {"coal": 0.05, "pines": 0.05}, {"coal": 40, "pines": 10}
START = 500  # steps of the Gaussian fit that all begin from
NAMES = ("layer0/q_mu", "layer0/kernel/rbf/lengthscales", "layer0/kernel/rbf/variance")
Turn = Callable[[int], np.ndarray]  # trajectories: states (S, coordinates)


def measure(cases: Sequence[str], systems: Sequence[str], rounds: int, turn: int, note) -> list[dict]:
    """One row for each case and system: seconds and effective samples over all its turns."""
    rows = []
    for case in cases:
        turns: dict[str, Turn] = {}
        start = None
        for system in systems:
            made, start = _ours(case, system, rounds * turn + 4, start)
            turns[system] = made
        turns[GPFLOW] = _theirs(case, start)
        for run in turns.values():
            run(2)  # compiles
            run(2)  # TensorFlow Probability's loop compiles once more for the state that it returned
        states: dict[str, list] = {name: [] for name in turns}
        wall, cpu = dict.fromkeys(turns, 0.0), dict.fromkeys(turns, 0.0)
        for i in range(rounds):
            for name, run in turns.items():
                began, cpu_began = time.perf_counter(), time.process_time()
                states[name].append(run(turn))
                wall[name] += time.perf_counter() - began
                cpu[name] += time.process_time() - cpu_began
            note(f"{case}: round {i + 1} of {rounds}")
        rows += [_row(case, name, np.concatenate(states[name]), wall[name], cpu[name]) for name in turns]
    return rows


def _row(case: str, system: str, states: np.ndarray, wall: float, cpu: float) -> dict:
    """The least effective coordinate decides; `moved` is the share of trajectories that were accepted."""
    from dgpbench.inference.mixing import effective_samples

    effective = float(effective_samples(states[None]).min())
    return {
        "case": case,
        "system": system,
        "step": STEP[case],
        "leapfrog": LEAPFROG[case],
        "trajectories": len(states),
        "moved": float((np.diff(states[:, 0]) != 0).mean()),
        "effective": effective,
        "seconds": wall,
        "cpu_seconds": cpu,
        "effective_per_second": effective / wall,
        "effective_per_cpu_second": effective / cpu,
        "ms_per_trajectory": 1e3 * cpu / len(states),
    }


def table(rows: Sequence[dict]) -> Table:
    """Rates and their ratios to GPflow's in the same case."""
    theirs = {row["case"]: row for row in rows if row["system"] == GPFLOW}
    lines = []
    for row in rows:
        ratio = row["effective_per_cpu_second"] / theirs[row["case"]]["effective_per_cpu_second"]
        speed = theirs[row["case"]]["ms_per_trajectory"] / row["ms_per_trajectory"]
        numbers = (row["moved"], row["effective"], row["ms_per_trajectory"], row["effective_per_cpu_second"])
        texts = [f"{x:.3g}" for x in numbers]
        lines.append([row["case"], row["system"], *texts, f"{speed:.2f}", f"{ratio:.2f}"])
    heads = ["case", "system", "accepted", "effective", "ms a trajectory", "effective a CPU second"]
    heads += ["speed over GPflow", "effective over GPflow"]
    return Table("Effective samples of SGPMC beside GPflow's", heads, lines)


# ---- ours -----------------------------------------------------------------------------------------------


def _ours(case: str, system: str, count: int, start: dict | None) -> tuple[Turn, dict]:
    """Trajectories of our chain, and the Gaussian fit that it starts from: `start`, where there is one."""
    from dgpbench.config import compose
    from dgpbench.config.targets import create_method
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
    bound = method.bound(model)
    values |= {name: v for name, v in (start or {}).items() if name in values}
    raw = unconstrain(values, bound.constraints())
    spec = step_spec(cfg, bound, method.update(bound), raw, fixed, len(X), True, 1, "/CPU:0")
    trainer = Trainer(spec)
    trainer.reset(raw, method.rates(), seed=0, num_data=len(X), jitter=1e-6, data=(X, Y))
    if start is None:
        trainer.run(0, np.zeros((START, 0), np.int32))
        start = {name: v for name, v in trainer.values().items() if name != "jitter"}
    done = START

    def turn(trajectories: int) -> np.ndarray:
        nonlocal done
        trainer.run(done, np.zeros((trajectories, 0), np.int32))
        before, done = done, done + trajectories
        kept = [trainer.oracle.slots[f"kept/{name}"].numpy()[0] for name in NAMES]
        flat = np.concatenate([k.reshape(len(k), -1) for k in kept], 1)
        return flat[max(0, before - START - 1) : done - START - 1]

    return turn, start | {"X": X, "Y": Y, "bin_size": np.asarray(split.bin_size)}


# ---- GPflow's -------------------------------------------------------------------------------------------


def _theirs(case: str, start: dict[str, Any]) -> Turn:
    """Trajectories of TensorFlow Probability's HMC over GPflow's SGPMC, as its documentation runs them."""
    import gpflow
    import tensorflow as tf
    import tensorflow_probability as tfp

    from dgpbench.config import compose

    priors = compose([f"experiment={CASES[case]}", f"dataset={case}"])["model"]["priors"]
    kernel = gpflow.kernels.SquaredExponential()
    for name, field in (("lengthscales", "lengthscale"), ("variance", "kernel_variance")):
        prior = tfp.distributions.Gamma(*map(np.float64, priors[field][1:]))
        value = np.reshape(start[f"layer0/kernel/rbf/{name}"], ())
        own = gpflow.Parameter(value, transform=tfp.bijectors.Exp(), prior=prior)
        setattr(kernel, name, own)
    likelihood = gpflow.likelihoods.Poisson(binsize=float(start["bin_size"]))
    data = start["X"], start["Y"]
    model = gpflow.models.SGPMC(data, kernel, likelihood, inducing_variable=start["layer0/Z"])
    gpflow.set_trainable(model.inducing_variable, False)
    noise = np.random.RandomState(0).randn(*start["layer0/q_mu"].shape)
    model.V.assign((start["layer0/q_mu"] + np.einsum("pij,pj->pi", start["layer0/q_sqrt"], noise)).T)
    helper = gpflow.optimizers.SamplingHelper(
        model.log_posterior_density, [model.V, kernel.lengthscales, kernel.variance]
    )
    hmc = tfp.mcmc.HamiltonianMonteCarlo(helper.target_log_prob_fn, np.float64(STEP[case]), LEAPFROG[case])

    @tf.function
    def sample(count, state, results, seed):
        return tfp.mcmc.sample_chain(
            count, state, results, kernel=hmc, return_final_kernel_results=True, trace_fn=None, seed=seed
        )

    state, results, turns = helper.current_state, None, 0

    def turn(trajectories: int) -> np.ndarray:
        nonlocal state, results, turns
        results = hmc.bootstrap_results(state) if results is None else results
        found = sample(tf.constant(trajectories), state, results, tf.constant([0, turns]))
        state, results, turns = [part[-1] for part in found.all_states], found.final_kernel_results, turns + 1
        return np.concatenate([np.reshape(part, (trajectories, -1)) for part in found.all_states], 1)

    return turn
