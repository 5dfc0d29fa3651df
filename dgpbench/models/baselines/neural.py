"""What the neural baselines share: from config through the engine's loop to parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dgpbench.engine.batches import Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.loop import train
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import get_trainer
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.base import Whole
from dgpbench.inference.updates.adam import Adam
from dgpbench.inference.variational import adam_rates

PREDICT_COLUMNS = 100_000  # points times samples that pass through a network at once


@dataclass(frozen=True)
class Network(Whole):
    """A density model of y given x: its structure, hashable, and its bound, one term for each column of
    X (D, B), Y (P, B), noise (noise_dim, B): log p(y | x) or a bound on it."""

    dim: int = 1
    outputs: int = 1
    noise_dim: ClassVar[int] = 0  # standard normals per point and sample of the bound

    @property
    def input_dim(self) -> int:
        return self.dim

    @property
    def target_dim(self) -> int:
        return self.outputs

    def describe(self) -> str:
        """The widths in one line."""
        raise NotImplementedError

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        """Constrained parameters to start from."""
        raise NotImplementedError


class NeuralModel(ABC):
    """A network trained by Adam on a bound; a subclass has `network` and `predict`."""

    tasks = ("regression",)
    fixed: tuple[str, ...] = ()  # parameters that are not trained

    def __init__(self, cfg: dict):
        self.cfg = cfg
        self.threads = set_threads(cfg["threads"])
        self.device = choose_device(cfg["device"])
        self.values: dict[str, np.ndarray] = {}

    @abstractmethod
    def network(self, dim: int, outputs: int) -> Network:
        """The structure for data with so many inputs and outputs."""

    def start(self, split, seed: int) -> str:
        """One line about the network for the user."""
        network = self.network(split.dim, split.outputs)
        count = sum(v.size for v in network.initial(np.random.RandomState(seed)).values())
        return f"{network.describe()}, {count:,} parameters"

    def fit(self, split, run: RunContext) -> TrainResult:
        cfg, inference = self.cfg, self.cfg["inference"]
        network = replace(self.network(split.dim, split.outputs), samples=inference["samples"])
        batches = Batches(split.n_train, inference["batch"], run.seed)
        resident = 8 * split.n_train * (split.dim + split.outputs) <= cfg["engine"]["memory_limit_gb"] * 1e9
        raw = unconstrain(network.initial(np.random.RandomState(run.seed)), network.constraints())
        trainer = get_trainer(
            StepSpec(
                bound=network,
                update=Adam(),
                shapes=tuple((name, v.shape) for name, v in raw.items()),
                fixed=frozenset(self.fixed),
                batch=batches.batch,
                full_batch=batches.full and resident,
                precision=cfg["precision"],
                xla=cfg["engine"]["xla"] in ("auto", True),
                device=self.device,
            )
        )
        trainer.reset(
            raw,
            adam_rates(inference["adam"]),
            seed=run.seed,
            num_data=split.n_train,
            data=(split.X_train, split.Y_train) if resident else None,
        )
        result = train(trainer, batches, run, take=None if resident else split.take_train)
        self.load_parameters(trainer.values())
        return result

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}

    def tensors(self) -> dict[str, tf.Tensor]:
        return {name: tf.constant(v) for name, v in self.values.items()}
