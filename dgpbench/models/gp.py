"""Sparse and deep GPs as models of the harness: from config to engine and back to predictions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dgpbench.engine.batches import Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.loop import train
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.engine.trainer import StepSpec, get_trainer
from dgpbench.evaluate.predictive import Predictive
from dgpbench.inference.optimise import rates_from_config
from dgpbench.models import init
from dgpbench.models.deep_gp import DeepGP, prepare, propagate
from dgpbench.models.likelihoods import LIKELIHOODS
from dgpbench.models.parameters import unconstrain

INIT_ROWS = 100_000  # initial values are taken from at most this many random rows
PREDICT_COLUMNS = 10_000  # points times samples that pass through the layers at once
JITTER = {"float64": 1e-6, "mixed": 1e-6, "float32": 1e-5}


class GPModel:
    """SGP and DGP-L by doubly stochastic variational inference, Adam and natural gradients."""

    def __init__(self, cfg: dict):
        self.cfg = cfg
        self.threads = set_threads(cfg["threads"])
        self.device = choose_device(cfg["device"])
        self.model: DeepGP | None = None
        self.values: dict[str, np.ndarray] = {}
        self._initial = None
        self._prepared = None

    # ---- training ------------------------------------------------------------------------------------

    def start(self, split, seed: int) -> str:
        """Choose structure and initial values; returns one line about them for the user."""
        self._initial = init.build(self.cfg, _sample_inputs(split, seed), split.outputs, seed)
        model, values, fixed, _ = self._initial
        widths = " -> ".join(str(d) for d in (split.dim, *(layer.output_dim for layer in model.layers)))
        kernels = ", ".join("+".join(layer.kernel.parts) for layer in model.layers)
        M = ", ".join(str(layer.num_inducing) for layer in model.layers)
        count = sum(v.size for name, v in values.items() if name not in fixed)
        return f"{widths}, kernels {kernels}, inducing points {M}, {count:,} parameters"

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
        full = batches.full and resident
        trainer = get_trainer(
            step_spec(cfg, self.model, raw, fixed, batches.batch, full, self.threads, self.device)
        )
        trainer.reset(
            raw,
            rates_from_config(inference),
            seed=run.seed,
            num_data=split.n_train,
            jitter=cfg["model"]["jitter"] or JITTER[cfg["precision"]],
            data=(split.X_train, split.Y_train) if resident else None,
        )
        result = train(trainer, batches, run, take=None if resident else split.take_train)
        self.load_parameters(trainer.values() | {"jitter": np.asarray(trainer.jitter.numpy(), np.float64)})
        return result

    # ---- prediction ----------------------------------------------------------------------------------

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """Mixture over samples of the inner layers (thesis 2.20); one component if there are none."""
        samples = samples if self.model.noise_dim else 1
        rows = max(1, PREDICT_COLUMNS // samples)
        means, variances = [], []
        for block, start in enumerate(range(0, len(X), rows)):
            part = X[start : start + rows]
            padded = np.concatenate([part, np.zeros((rows - len(part), X.shape[1]))])
            out = _compiled_predict(self.model, samples)(self._prepared, padded, tf.constant([seed, block]))
            means.append(out[0].numpy()[:, : len(part)])
            variances.append(out[1].numpy()[:, : len(part)])
        return Predictive(mean=np.concatenate(means, 1), var=np.concatenate(variances, 1))

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}
        self.model = init.structure(self.cfg, self.values)
        tensors = {name: tf.constant(v) for name, v in self.values.items()}
        self._prepared, _ = prepare(self.model, tensors, tensors.pop("jitter"))


def step_spec(
    cfg: dict, model: DeepGP, raw: dict, fixed: set, batch: int, full: bool, threads: int, device: str
):
    """What the compiled step of this config depends on."""
    inference, engine = cfg["inference"], cfg["engine"]
    return StepSpec(
        model=model,
        shapes=tuple((name, v.shape) for name, v in raw.items()),
        fixed=frozenset(fixed),
        batch=batch,
        full_batch=full,
        samples=inference["samples"],
        optimiser=inference["optimiser"],
        parameterisation=inference["natgrad"]["parameterisation"],
        alternate=inference["natgrad"]["alternate"],
        precision=cfg["precision"],
        chunk_rows=engine["chunk_rows"],
        threads=threads,
        xla=engine["xla"] in ("auto", True),
        device=device,
    )


def _sample_inputs(split, seed: int) -> np.ndarray:
    """Training inputs for the initial values: all of them, or a random sample of very many."""
    if split.n_train <= INIT_ROWS:
        return split.X_train
    rows = np.random.RandomState(seed).choice(split.n_train, INIT_ROWS, replace=False)
    return split.take_train(np.sort(rows))[0]


@lru_cache(maxsize=8)
def _compiled_predict(model: DeepGP, samples: int):
    """y's mean and variance (S, N, P) for rows X (N, D), in float64."""

    @tf.function(reduce_retracing=True)
    def run(prepared, X, seed):
        N = X.shape[0]
        shape = (model.noise_dim, samples * N)
        noise = tf.cast(tf.random.stateless_normal(shape, seed, dtype=tf.float32, alg="philox"), tf.float64)
        mean, var = propagate(model, prepared, tf.tile(tf.transpose(X), (1, samples)), noise)  # P, S * N
        mean, var = LIKELIHOODS[model.likelihood].predict_mean_and_var(prepared["likelihood"], mean, var)
        rows = lambda A: tf.transpose(tf.reshape(A, (-1, samples, N)), (1, 2, 0))  # noqa: E731  S, N, P
        return rows(mean), rows(var)

    return run
