"""The full GP by Hamiltonian Monte Carlo over functions and hyperparameters, any likelihood of GPflow.

f = L v, K = L L^T at all training rows, v ~ N(0, I); a parameter with a prior is sampled, another stays.

"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dgpbench.config.checks import check_priors
from dgpbench.config.refusals import burn_in_and_thinning
from dgpbench.config.schema import COUNT, POSITIVE, Field
from dgpbench.config.sections import option
from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import tf
from dgpbench.errors import Diverged, import_gpflow
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp.parameters import scope
from dgpbench.inference.mixing import mixing
from dgpbench.models.classics.base import Classic
from dgpbench.models.classics.lbfgs import maximise

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


FAMILIES = {
    "gamma": "Gamma",
    "inverse_gamma": "InverseGamma",
    "lognormal": "LogNormal",
    "half_normal": "HalfNormal",
}
FIELDS = {
    "start_steps": Field(int, low=0),
    "burn_in": Field(float, above=0, below=1),
    "kept": COUNT,
    "chains": COUNT,
    "leapfrog": COUNT,
    "step": POSITIVE,
    "accept": Field(float, above=0, below=1),
}


class GPMC(Classic):
    """GPflow's GPMC. Below `draws/`, by the paths that GPflow has, are the kept states of all chains."""

    tasks = ("regression", "binary", "multiclass")
    evidence_kind = "no evidence: samples of the posterior"

    def __init__(self, cfg: dict):
        super().__init__(cfg)
        self.own = {name: option(cfg, name, field) for name, field in FIELDS.items()}
        self.priors = check_priors(self.settings["priors"])
        self.burn_in, self.thinning = burn_in_and_thinning(cfg)

    def numbers(self, rows: int, gps: int) -> float:
        return 14.0 * rows**2 + 3.0 * self.own["chains"] * self.own["kept"] * rows * gps

    def own_initial(self, X: np.ndarray, gps: int, seed: int) -> dict[str, np.ndarray]:
        return {"V": np.zeros((len(X), gps))}

    def gps(self) -> int:
        return self.values["V"].shape[1]

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        gpflow = import_gpflow()

        model = gpflow.models.GPMC((values["X"], values["Y"]), kernel, likelihood, num_latent_gps=self.gps())
        model.V.assign(values["V"])
        return model

    # ---- sampling ------------------------------------------------------------------------------------

    def fit(self, split, run: RunContext) -> dict[str, Any]:
        self.start(split, run.seed)
        values = self.first_values(split, run.seed)
        self.load_parameters(values)
        self._set_priors()
        with tf.device(self.device):
            if self.own["start_steps"]:
                maximise(self.model, replace(run, steps=self.own["start_steps"]))
            result, states, pace = sample(self.model, run, self.own, self.burn_in, self.thinning)
            draws = {
                name: self._constrained(name, [[state[i] for state in chain] for chain in states])
                for i, name in enumerate(self._trained())
            }
        flat = {f"draws/{name}": v.reshape(-1, *v.shape[2:]) for name, v in draws.items()}
        self.load_parameters(values | flat)
        return {"evidence_kind": self.evidence_kind} | result | {"checks": {"chains": mixing(draws) | pace}}

    def _trained(self) -> dict[str, Any]:
        """GPflow's parameters that are sampled, by their paths in the model, in the order of a state."""
        paths = {id(p): path.replace(".", "/") for path, p in gpflow_parameters(self.model).items()}
        return {paths[id(p)]: p for p in self.model.trainable_parameters}

    def _constrained(self, name: str, raw: list[list[np.ndarray]]) -> np.ndarray:
        """Values (chains, draws, *shape) of a parameter from those that the sampler moves."""
        transform = self._trained()[name].transform
        return np.asarray(transform.forward(np.array(raw)) if transform else raw)

    def _set_priors(self) -> None:
        """GPflow's priors; a parameter without one is held."""
        gpflow = import_gpflow()
        from tensorflow_probability import distributions

        for part in ("kernel", "likelihood"):
            for path, parameter in gpflow.utilities.parameter_dict(getattr(self.model, part)).items():
                leaf = path.rpartition(".")[2]
                name = {"lengthscales": "lengthscale"}.get(leaf, f"{part}_{leaf}")
                if name not in self.priors:
                    gpflow.set_trainable(parameter, False)
                    continue
                family, *arguments = self.priors[name]
                kind = getattr(distributions, FAMILIES[family])
                parameter.prior = kind(*(tf.constant(a, tf.float64) for a in arguments))

    # ---- prediction: the average over the draws --------------------------------------------------------

    @property
    def num_members(self) -> int:
        return len(self.values["draws/V"])

    def members(self) -> Iterator[tuple[Any, dict[str, np.ndarray]]]:
        """The model at each draw in turn."""
        parameters = {path.replace("/", "."): v for path, v in scope(self.values, "draws").items()}
        named = gpflow_parameters(self.model)
        for i in range(self.num_members):
            for path, values in parameters.items():
                named[path].assign(values[i])
            yield (
                self.model,
                {name: getattr(self.model.likelihood, name).numpy() for name in self.likelihood.positive},
            )

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        out = super().predict(X, samples, seed)
        if out.mean is None:
            return out
        weights = np.full(
            out.mean.shape[:2], -np.log(len(out.mean))
        )  # of a mixture that is exact as it stands
        return replace(out, log_weights=weights)


def gpflow_parameters(model: Any) -> dict[str, Any]:
    """GPflow's parameters by their paths, such as kernel.lengthscales."""
    gpflow = import_gpflow()

    return {path[1:]: p for path, p in gpflow.utilities.parameter_dict(model).items()}
