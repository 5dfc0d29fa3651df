"""Chains of a GPflow model by TensorFlow Probability's Hamiltonian Monte Carlo, within a run's budget."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import tf
from dgpbench.errors import Diverged

SPREAD = 0.1  # standard deviation of the chains' first states around the model's own
State = list[np.ndarray]  # of the model's trainable variables


def sample(
    model: Any, run: RunContext, own: Mapping[str, Any], burn_in: int, thinning: int
) -> tuple[dict[str, Any], list[list[State]], dict[str, float]]:
    """Facts for the record, the kept states of each chain, and what a trajectory was like.

    `own`: chains, leapfrog, step, accept, kept (of each chain, the last). The step size follows dual
    averaging in burn-in; chains advance side by side. run.steps are trajectories of each; after run.seconds
    no further one begins.
    """
    import tensorflow_probability as tfp
    from gpflow.optimizers import SamplingHelper

    helper = SamplingHelper(model.log_posterior_density, model.trainable_parameters)
    inner = tfp.mcmc.HamiltonianMonteCarlo(helper.target_log_prob_fn, own["step"], own["leapfrog"])
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(inner, burn_in, target_accept_prob=own["accept"])

    @tf.function(autograph=False)
    def advance(state, results, step, chain):
        key = tf.random.experimental.stateless_fold_in(tf.stack([run.seed, step]), chain)
        return kernel.one_step(state, results, seed=key)

    chains = range(own["chains"])
    states: list[list[State]] = [[] for _ in chains]
    rng = np.random.default_rng((run.seed, 2))
    first = [
        [tf.constant(v + SPREAD * rng.standard_normal(v.shape)) for v in helper.current_state] for _ in chains
    ]
    at = [(state, kernel.bootstrap_results(state)) for state in first]
    began, cpu, accepted, steps, seconds = time.perf_counter(), time.process_time(), 0, 0, 0.0
    run.reporter.start(run.steps, run.seconds)
    while steps < run.steps and (run.seconds is None or seconds < run.seconds):
        for chain in chains:
            at[chain] = advance(*at[chain], tf.constant(steps), tf.constant(chain))
        steps, after = steps + 1, steps + 1 - burn_in
        seconds = time.perf_counter() - began
        reached = [results.inner_results for _, results in at]
        density = float(reached[0].accepted_results.target_log_prob)
        run.reporter.update(steps, density, steps / seconds, None)
        if after > 0:
            accepted += sum(bool(r.is_accepted) for r in reached)
        if after > 0 and after % thinning == 0:
            for kept, (state, _) in zip(states, at, strict=True):
                kept.append([v.numpy() for v in state])
    run.reporter.stop()
    states = [kept[-own["kept"] :] for kept in states]
    if not states[0]:
        raise Diverged(f"sampling ended at step {steps}, before the first sample; raise budget.seconds")
    facts = {
        "steps": steps,
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "steps_per_second": steps / seconds,
    }
    share = accepted / (len(states) * (steps - burn_in))
    return facts, states, {"accepted": share, "step": float(at[0][1].new_step_size)}
