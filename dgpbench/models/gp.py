"""Sparse and deep GPs as models of the harness: from config to engine and back to predictions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dgpbench.config.keys import later_defaults
from dgpbench.engine.batches import EXPLICIT_LIMIT, Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.loop import train
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import get_trainer
from dgpbench.errors import UserError
from dgpbench.evaluate.loglik import mean_loglik
from dgpbench.evaluate.predictive import Predictive
from dgpbench.inference.bounds import Bound, data_term, weighted_latents
from dgpbench.inference.optimise import rates_from_config
from dgpbench.keyed_random import permuted
from dgpbench.models import density, init, likelihoods, prediction
from dgpbench.models.deep_gp import DeepGP, prepare
from dgpbench.models.joint import UNROLLED
from dgpbench.models.latent import LatentLayer
from dgpbench.models.layers import GPLayer
from dgpbench.models.likelihoods import Gaussian
from dgpbench.models.parameters import unconstrain

INIT_ROWS = 100_000  # initial values are taken from at most this many random rows
INIT_STREAM = 1 << 43  # of the random sample of very many rows; epochs have the small ones
CHECK_ROWS, CHECK_NATS = 1000, 0.01  # of the quadrature, after training
JITTER = {"float64": 1e-6, "mixed": 1e-6, "float32": 1e-5}


class GPModel:
    """Sparse and deep GPs, with or without latent variables, by stochastic variational inference."""

    def __init__(self, cfg: dict):
        self.cfg = cfg
        # The thread pool inside operations also runs the batch part of joint samples, and prediction with
        # latent variables is long; all else is faster without it.
        self.threads = set_threads(cfg["threads"], inside=self.latent)
        self.device = choose_device(cfg["device"])
        self.model: DeepGP | None = None
        self.values: dict[str, np.ndarray] = {}
        self._initial = None
        self._prepared = None

    @property
    def latent(self) -> bool:
        """Whether predictions average over latent variables."""
        return "lv" in self.cfg["model"]["layers"]

    @property
    def discrete(self) -> bool:
        """Whether y takes separate values."""
        return self.model is not None and self.model.likelihood.discrete

    # ---- training ------------------------------------------------------------------------------------

    def start(self, split, seed: int) -> str:
        """Choose structure and initial values; returns one line about them for the user."""
        X, Y = _sample_rows(split, seed)
        likelihood = likelihoods.choose(self.cfg, split)
        self._initial = init.build(self.cfg, X, Y, seed, split.n_train, likelihood)
        model, values, fixed, _ = self._initial
        kernels = ", ".join("+".join(model.layers[i].kernel.parts) for i in model.gps)
        M = ", ".join(str(model.layers[i].num_inducing) for i in model.gps)
        count = sum(v.size for name, v in values.items() if name not in fixed)
        about = f"{describe(model)}, {model.likelihood.name}, kernels {kernels}, inducing points {M}"
        return f"{about}, {count:,} parameters"

    def fit(self, split, run: RunContext) -> TrainResult:
        cfg, inference = self.cfg, self.cfg["inference"]
        if self._initial is None:
            self.start(split, run.seed)
        self.model, values, fixed, notes = self._initial
        self._initial = None
        for note in notes:
            run.note(note)
        raw = unconstrain(values)
        batches = Batches(split.n_train, inference["batch"], run.seed)
        resident = 8 * split.n_train * (split.dim + split.outputs) <= cfg["engine"]["memory_limit_gb"] * 1e9
        if not resident and any(self.model.layers[i].q == "free" for i in self.model.latent):
            raise UserError(
                "inference.latent_q=free needs the data in memory; raise engine.memory_limit_gb or use "
                "amortised"
            )
        full = batches.full and resident
        spec = step_spec(cfg, self.model, raw, fixed, batches.batch, full, self.threads, self.device)
        if spec.direction and not full:
            raise UserError(
                "inference.natgrad.step=linesearch needs all training rows in each step and in memory; set "
                f"inference.batch={split.n_train}"
            )
        trainer = get_trainer(spec)
        trainer.reset(
            raw,
            rates_from_config(inference),
            seed=run.seed,
            num_data=split.n_train,
            jitter=cfg["model"]["jitter"] or JITTER[cfg["precision"]],
            data=(self._inputs(split.X_train), split.Y_train) if resident else None,
        )
        look = partial(self._test_loglik, trainer, split, run.seed)
        result = train(
            trainer,
            batches,
            run,
            take=None if resident else self._streamed(split),
            look=look if cfg["engine"].get("trace_test") else None,
        )
        self._take_over(trainer)
        if bound_of(cfg, self.model).kind == "optimal":
            result.checks["quadrature"] = self._check_quadrature(split, run)
        return result

    def _take_over(self, trainer) -> None:
        self.load_parameters(trainer.values() | {"jitter": np.asarray(trainer.jitter.numpy(), np.float64)})

    def _test_loglik(self, trainer, split, seed: int) -> float:
        """The test log-likelihood as training stands, for its trace."""
        self._take_over(trainer)
        samples = self.cfg["protocol"]["test_samples"]
        return mean_loglik(self.predict, split, samples, seed, self.log_density)

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return X if self.cfg["model"].get("use_inputs", True) else X[:, :0]

    def _streamed(self, split):
        def take(rows):
            X, Y = split.take_train(rows)
            return self._inputs(X), Y

        return take

    def _check_quadrature(self, split, run: RunContext) -> dict[str, float]:
        """How much the bound of a point changes when its nodes are doubled: mean and largest, in nats."""
        X, Y = split.take_train(np.arange(min(split.n_train, CHECK_ROWS)))
        bound = bound_of(self.cfg, self.model)
        dim = self.model.layers[self.model.latent[0]].dim
        values = [
            self._data_term(
                replace(bound, samples=1, importance=bound.importance * factor**dim), X, Y, run.seed
            )
            for factor in (1, 2)
        ]
        change = np.abs(values[1] - values[0])
        check = {"mean": float(np.mean(change)), "max": float(change.max()), "rows": len(X)}
        if check["mean"] > CHECK_NATS:
            run.note(
                f"quadrature: doubling the nodes changes the bound by {check['mean']:.2g} nats per point:"
                " it is no bound; use more inference.quadrature.nodes or the adaptive rule"
            )
        return check

    def _data_term(self, bound: Bound, X: np.ndarray, Y: np.ndarray, seed: int) -> np.ndarray:
        """What each row adds to the bound, from one draw of what lies in front of the latent layer."""
        noise = tf.constant(np.random.RandomState(seed).randn(self.model.noise_dim, len(X)))
        columns = (tf.constant(self._inputs(X).T), tf.constant(Y.T), noise, tf.constant(0))
        return data_term(self.model, self._prepared, bound, *columns).numpy()

    # ---- prediction ----------------------------------------------------------------------------------

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """What the likelihood predicts: a mixture, class probabilities or draws (prediction.py)."""
        return prediction.predict(self.model, self._prepared, self._inputs(X), samples, seed)

    def log_density(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray | None:
        """log p(y | x) better than from what `predict` gives, as the logs of terms (S, N) whose mean it is;
        None where that is as good, or there is no other way."""
        if hasattr(self.model.likelihood, "probs"):
            return None
        if self.latent and density.possible(self.model):
            inner = max(1, samples // density.NODES)
            return density.log_density(self.model, self._prepared, self._inputs(X), Y, inner, seed)
        if isinstance(self.model.likelihood, Gaussian):
            return None
        return prediction.log_density(self.model, self._prepared, self._inputs(X), Y, samples, seed)

    def posterior_latents(
        self, X: np.ndarray, Y: np.ndarray | None, samples: int, seed: int, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Draws (S, N, dim) of w given x and y: K draws of q(w), one chosen by its importance weight (5.2.4).

        Scaled X (N, D), Y (N, P). Where q(w) has parameters for each row, `rows` names the training rows.
        """
        if not self.latent:
            raise UserError(
                "this model has no latent variables; choose one with an lv layer, e.g. model=lv_gp"
            )
        if Y is None:
            raise UserError(
                "the posterior of a latent variable needs y beside x; without y it is the prior N(0, I)"
            )
        free = any(self.model.layers[i].q == "free" for i in self.model.latent)
        if free and rows is None:
            raise UserError("q(w) has parameters for each training row: name the rows of X with rows=...")
        tensors = {name: tf.constant(v) for name, v in self.values.items() if name != "jitter"}
        chosen = tf.constant(rows, tf.int32) if free else None
        prepared, _ = prepare(self.model, tensors, self.values["jitter"], rows=chosen)
        bound, rng, N = bound_of(self.cfg, self.model), np.random.RandomState(seed), len(X)
        X, Y = tf.constant(self._inputs(X).T), tf.constant(Y.T)
        each = max(1, prediction.COLUMNS // (bound.importance * N))
        draws = []
        for start in range(0, samples, each):
            part = replace(bound, samples=min(each, samples - start))
            noise = tf.constant(rng.randn(self.model.noise_dim, part.columns * N))
            w, log_weight = weighted_latents(self.model, prepared, part, X, Y, noise, tf.constant(0))
            pick = np.argmax(log_weight.numpy() + rng.gumbel(size=log_weight.shape), 0)  # by their weights
            chosen = np.concatenate([v.numpy()[:, pick, np.arange(len(pick))] for v in w])  # dim, S N
            draws.append(chosen.T.reshape(part.samples, N, -1))
        return np.concatenate(draws)

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}
        self.model = init.structure(self.cfg, self.values)
        tensors = {name: tf.constant(v) for name, v in self.values.items()}
        self._prepared, _ = prepare(self.model, tensors, tensors.pop("jitter"))


def describe(model: DeepGP) -> str:
    """The layers in one line: 8 -> 8 -> 1, with latents as `+ w(1)` and mixed GPs in brackets."""
    parts = [f"{model.input_dim}"]
    for layer in model.layers:
        if isinstance(layer, LatentLayer):
            parts.append(f"{layer.output_dim} (+ {layer.dim} latent)")
        elif isinstance(layer, GPLayer) and layer.mixed:
            parts.append(f"{layer.mixed} ({layer.output_dim} GPs mixed)")
        else:
            parts.append(str(layer.output_dim))
    return " -> ".join(parts)


def bound_of(cfg: dict, model: DeepGP) -> Bound:
    """The bound that a config names, for this structure."""
    inference = later_defaults("inference") | cfg["inference"]
    samples = inference["samples"]
    if not model.latent or inference["bound"] == "vi":
        return Bound(samples=samples)
    if inference["bound"] == "optimal":
        rule, nodes = inference["quadrature"]["rule"], inference["quadrature"]["nodes"]
        dim = model.layers[model.latent[0]].dim
        return Bound("optimal", samples, nodes**dim, rule=rule)
    joint = cfg["model"].get("compat") != "released"
    return Bound("iwvi", samples, inference["importance_samples"], joint, inference["dreg"])


def search_direction(natgrad: dict) -> str | None:
    """What a line search follows; None where steps have a schedule."""
    return natgrad["direction"] if natgrad.get("step") == "linesearch" else None


def step_spec(
    cfg: dict, model: DeepGP, raw: dict, fixed: set, batch: int, full: bool, threads: int, device: str
):
    """What the compiled step of this config depends on."""
    inference, engine = cfg["inference"], cfg["engine"]
    bound = bound_of(cfg, model)
    unrolled = bound.kind != "iwvi" or not bound.joint or bound.importance <= UNROLLED
    return StepSpec(
        model=model,
        shapes=tuple((name, v.shape) for name, v in raw.items()),
        fixed=frozenset(fixed),
        batch=batch,
        full_batch=full,
        bound=bound,
        optimiser=inference["optimiser"],
        parameterisation=inference["natgrad"]["parameterisation"],
        alternate=inference["natgrad"]["alternate"],
        direction=search_direction(inference["natgrad"]),
        precision=cfg["precision"],
        chunk_rows=engine["chunk_rows"],
        threads=threads,
        xla=engine["xla"] in ("auto", True) and unrolled,  # XLA's own Cholesky is slow
        device=device,
    )


def _sample_rows(split, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Training rows for the initial values: all of them, or a random sample of very many."""
    if split.n_train <= INIT_ROWS:
        return split.X_train, split.Y_train
    if split.n_train > EXPLICIT_LIMIT:
        rows = permuted(np.arange(INIT_ROWS), split.n_train, seed, INIT_STREAM)
    else:
        rows = np.random.RandomState(seed).choice(split.n_train, INIT_ROWS, replace=False)
    return split.take_train(np.sort(rows))
