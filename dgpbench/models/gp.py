"""Sparse and deep GPs as models of the harness: from config to engine and back to predictions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dgpbench.config.classes import create_method
from dgpbench.engine.batches import EXPLICIT_LIMIT, Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.loop import train
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.engine.spec import check_samples, step_spec
from dgpbench.engine.trainer import Trainer, get_trainer
from dgpbench.errors import Diverged, UserError
from dgpbench.evaluate.evaluation import mean_loglik
from dgpbench.evaluate.predictive import Predictive, pooled
from dgpbench.gp import likelihoods, start
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.gp.likelihoods import Gaussian
from dgpbench.gp.parameters import scope, unconstrain
from dgpbench.inference.base import Bound, Method, Numerics
from dgpbench.inference.gradients import place_of
from dgpbench.keyed_random import permuted
from dgpbench.models import importance, inside, latent_density, prediction

INIT_ROWS = 100_000  # initial values are taken from at most this many random rows
INIT_STREAM = 1 << 43  # random stream of the sample of very many rows; epochs have the streams from 0 on
CHECK_ROWS = 1000  # training rows on which a bound verifies itself after training
JITTER = {"float64": 1e-6, "mixed": 1e-6, "float32": 1e-5}


class GPModel:
    """Sparse and deep GPs, with or without latent variables, by any method of inference/."""

    tasks = ("regression", "binary", "multiclass", "counts")
    common_noise = False  # True: predictions at all rows share their samples

    def __init__(self, cfg: dict):
        self.cfg = cfg
        self.method: Method = create_method(cfg)
        # The thread pool inside operations also runs the batch part of joint samples, and prediction with
        # latent variables is long; all else is faster without it.
        self.threads = set_threads(cfg["threads"], inside=self.latent)
        self.device = choose_device(cfg["device"])
        self.model: DeepGP | None = None
        self.bound: Bound | None = None
        self.values: dict[str, np.ndarray] = {}
        self._initial = None
        self._members: list = []  # what `prepare` made of each parameter set of the posterior

    @property
    def latent(self) -> bool:
        """Whether predictions average over latent variables."""
        return "lv" in self.cfg["model"]["layers"]

    @property
    def discrete(self) -> bool:
        """Whether y is discrete."""
        return self.model is not None and self.model.likelihood.discrete

    # ---- training ------------------------------------------------------------------------------------

    def start(self, split, seed: int) -> str:
        """Choose structure and initial values; return one line about them for the user."""
        X, Y = _sample_rows(split, seed)
        likelihood = likelihoods.choose(self.cfg, split)
        model, values, fixed, notes = self.build(split, X, Y, seed, likelihood)
        self.bound = self.make_bound(model)
        check_samples(self.bound, min(self.cfg["inference"]["batch"], split.n_train))
        values = self.bound.initial(values)
        values = values | self.bound.row_values(values, self._inputs(X), split.n_train)
        self._initial = model, values, fixed & values.keys(), notes
        kernels = ", ".join(str(model.layers[i].kernel) for i in model.gps)
        M = ", ".join(str(model.layers[i].num_inducing) for i in model.gps)
        count = sum(v.size for name, v in values.items() if name not in fixed)
        about = f"{model.describe()}, {model.likelihood.name}, kernels {kernels}, inducing points {M}"
        return f"{about}, {count:,} parameters"

    def build(self, split, X: np.ndarray, Y: np.ndarray, seed: int, likelihood) -> tuple:
        """Return structure, initial values, names that are not trained, and notes, from rows X, Y."""
        return start.build(self.cfg, X, Y, seed, split.n_train, likelihood)

    def structure(self, values: dict[str, np.ndarray]) -> DeepGP:
        """Return the structure of a stored run."""
        return start.structure(self.cfg, values)

    def make_bound(self, model: DeepGP) -> Bound:
        """Return the objective that training maximises."""
        return self.method.bound(model)

    def fit(self, split, run: RunContext) -> TrainResult:
        cfg, inference = self.cfg, self.cfg["inference"]
        if self._initial is None:
            self.start(split, run.seed)
        self.model, values, fixed, notes = self._initial
        self._initial = None
        for note in notes:
            run.note(note)
        raw = unconstrain(values, self.bound.constraints())
        batches = Batches(split.n_train, inference["batch"], run.seed)
        resident = 8 * split.n_train * (split.dim + split.outputs) <= cfg["engine"]["memory_limit_gb"] * 1e9
        if not resident and any(self.model.layers[i].q == "free" for i in self.model.latent):
            raise UserError(
                "inference.latent_q=free needs the data in memory; raise engine.memory_limit_gb or use "
                "amortised"
            )
        full = batches.full and resident
        bound = self.bound.on_rows(values, self._inputs(split.X_train)) if full else self.bound
        update = self.method.update(bound)
        if update.needs_all_rows and not full:
            raise UserError(
                f"{update.needs_all_rows} needs all training rows in each step and in memory; set "
                f"inference.batch={split.n_train}"
            )
        if update.reduced:
            run.note(update.reduced)
        spec = step_spec(cfg, bound, update, raw, fixed, batches.batch, full, self.threads, self.device)
        trainer = get_trainer(spec)
        trainer.reset(
            raw,
            self.method.rates(),
            seed=run.seed,
            num_data=split.n_train,
            jitter=cfg["model"]["jitter"] or JITTER[cfg["precision"]],
            data=(self._inputs(split.X_train), split.Y_train) if resident else None,
        )
        look = partial(self._test_loglik, trainer, split, run.seed)
        score = None
        if run.stop and run.stop.rule == "validation":
            run.note(
                f"validation stop: {len(split.rows_valid):,} training rows are looked at, not trained on "
                f"(protocol.validation={cfg['protocol']['validation']:g}; rows "
                f"{', '.join(map(str, np.sort(split.rows_valid)[:5]))}, ... of the source)"
            )
            score = partial(self._test_loglik, trainer, split.on_validation(), run.seed)
        try:
            result = train(
                trainer,
                batches,
                run,
                take=None if resident else self._streamed(split),
                look=look if cfg["engine"].get("trace_test") else None,
                score=score,
            )
        except Diverged as error:
            raise Diverged(f"{error}{place_of(self.bound)}") from None
        if reason := update.incomplete(result.steps):
            raise Diverged(reason)
        self._take_over(trainer, result.steps)
        X, Y = split.take_train(np.arange(min(split.n_train, CHECK_ROWS)))
        columns = tf.constant(self._inputs(X).T), tf.constant(Y.T)
        result.checks, notes = self.bound.checks(self._members[0], *columns, run.seed)
        result.checks = result.checks | trainer.facts(result.steps)
        for note in notes:
            run.note(note)
        return result

    def _take_over(self, trainer: Trainer, steps: int) -> None:
        draws = {f"draws/{name}": value for name, value in trainer.draws(steps).items()}
        self.load_parameters(trainer.values() | draws)

    def _test_loglik(self, trainer: Trainer, split, seed: int, steps: int) -> float:
        """Return the current test log-likelihood for the trace of the training."""
        self._take_over(trainer, steps)
        samples = self.cfg["protocol"]["test_samples"]
        return mean_loglik(self.predict, split, samples, seed, self.log_density)

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return X if self.cfg["model"].get("use_inputs", True) else X[:, :0]

    def _streamed(self, split):
        def take(rows):
            X, Y = split.take_train(rows)
            return self._inputs(X), Y

        return take

    # ---- prediction ----------------------------------------------------------------------------------

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """Return the prediction averaged over the posterior: a mixture, probabilities or draws."""
        predict = partial(prediction.predict, members=len(self._members), common=self.common_noise)
        seed = self.cfg["seed"] if self.common_noise else seed
        each = self._for_members(predict, samples, seed, self._inputs(X))
        return each[0] if len(each) == 1 else pooled(each)

    def log_density(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray | None:
        """Return the logs of terms (S, N) whose mean is p(y | x).

        Return None where `predict` gives the density as precisely, or where there is no other way.
        """
        if hasattr(self.model.likelihood, "probs"):
            return None
        density = partial(prediction.log_density, members=len(self._members))
        if self.latent and latent_density.possible(self.model):
            density = latent_density.log_density
        elif self.cfg.get("dataset", {}).get("image") and (self.latent or self.model.layers[-1].mixed):
            density = importance.log_density
        elif isinstance(self.model.likelihood, Gaussian):
            return None
        return np.concatenate(self._for_members(density, samples, seed, self._inputs(X), Y))

    def _for_members(self, function, samples: int, seed: int, *arrays) -> list:
        """Call function(bound, prepared, *arrays, share, seed) for each member; each has an equal share."""
        share = -(-samples // len(self._members))
        seeds = [seed, *(_member_seed(seed, i) for i in range(1, len(self._members)))]
        pairs = zip(self._members, seeds, strict=True)
        with tf.device(self.device):
            return [function(self.bound, prepared, *arrays, share, own) for prepared, own in pairs]

    def posterior_latents(
        self, X: np.ndarray, Y: np.ndarray | None, samples: int, seed: int, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw w (S, N, dim) given x and y: one of K draws of q(w), chosen by importance weight (5.2.4).

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
        prepared, _ = self.bound.prepare(tensors, Numerics(self.values["jitter"]), rows=chosen)
        bound, rng, N = self.bound, np.random.RandomState(seed), len(X)
        X, Y = tf.constant(self._inputs(X).T), tf.constant(Y.T)
        each = max(1, prediction.COLUMNS // (bound.importance * N))
        draws = []
        for first in range(0, samples, each):
            part = replace(bound, samples=min(each, samples - first))
            noise = tf.constant(rng.randn(self.model.noise_dim, part.columns * N))
            w, log_weight = part.weighted_latents(prepared, X, Y, noise, tf.constant(0))
            pick = np.argmax(log_weight.numpy() + rng.gumbel(size=log_weight.shape), 0)  # by their weights
            chosen = np.concatenate([v.numpy()[:, pick, np.arange(len(pick))] for v in w])  # dim, S N
            draws.append(chosen.T.reshape(part.samples, N, -1))
        return np.concatenate(draws)

    def parameters(self) -> dict[str, np.ndarray]:
        """Return constrained values by name, `jitter`, and the stored draws of a sampler below `draws/`."""
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}
        single = {n: v for n, v in self.values.items() if n != "jitter" and not n.startswith("draws/")}
        self.model = self.structure(single)
        self.bound = self.make_bound(self.model)
        draws = scope(self.values, "draws")
        count = len(next(iter(draws.values()))) if draws else self.bound.draws
        self._members = self._prepared(count, self.cfg["seed"])

    def _prepared(self, count: int, seed: int) -> list:
        """Return the prepared form of `count` parameter sets of the posterior."""
        draws, members = scope(self.values, "draws"), []
        with tf.device(self.device):
            values, jitter = self.point()
            numerics = Numerics(jitter, ("quad",) * len(self.model.layers))  # exact in float64
            for i in range(count):
                own = values | {name: tf.constant(v[i]) for name, v in draws.items()}
                members.append(self.bound.prepare(own, numerics, key=tf.constant([seed, i]))[0])
        return members

    def point(self) -> tuple[dict, tf.Tensor]:
        """Return the parameters as tensors, without stored draws, and the jitter."""
        values = {name: tf.constant(v) for name, v in self.values.items() if not name.startswith("draws/")}
        return values, values.pop("jitter")

    def posterior_parts(self, count: int, seed: int) -> list[dict]:
        """Return prepared layers by name for `count` draws of the posterior.

        Layers repeat where q is not drawn, or where there are fewer stored draws.
        """
        drawn = self.bound.draws > 1 and not scope(self.values, "draws")
        members = self._prepared(count, seed) if drawn else self._members
        return [self.bound.layers(members[i % len(members)]) for i in range(count)]

    def inside(self, split, seed: int) -> dict[str, float]:
        """Return metrics of the model itself: its bound and its layers' variances."""
        return inside.metrics(self, split, seed)


def _member_seed(seed: int, index: int) -> int:
    return int(np.random.SeedSequence((seed, index)).generate_state(1)[0] >> 1)


def _sample_rows(split, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows for the initial values, at most INIT_ROWS random ones."""
    if split.n_train <= INIT_ROWS:
        return split.X_train, split.Y_train
    if split.n_train > EXPLICIT_LIMIT:
        rows = permuted(np.arange(INIT_ROWS), split.n_train, seed, INIT_STREAM)
    else:
        rows = np.random.RandomState(seed).choice(split.n_train, INIT_ROWS, replace=False)
    return split.take_train(np.sort(rows))
