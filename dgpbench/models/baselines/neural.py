"""What the neural baselines share: from config through the engine's loop to parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dgpbench.engine.batches import Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.loop import train
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.errors import UserError
from dgpbench.inference.optimise import rates_from_config
from dgpbench.models.baselines.network_trainer import Network, NetworkSpec, get_trainer

PREDICT_COLUMNS = 100_000  # points times samples that pass through a network at once


class NeuralModel(ABC):
    """A network trained by Adam on a bound; a subclass has `network` and `predict`."""

    tasks = ("regression",)

    def __init__(self, cfg: dict):
        self.cfg = cfg
        self.threads = set_threads(cfg["threads"])
        self.device = choose_device(cfg["device"])
        self.values: dict[str, np.ndarray] = {}
        if cfg["inference"]["optimiser"] != "adam":
            raise UserError(
                f"model={cfg['model']['name']} has no natural gradients, inference.optimiser="
                f"{cfg['inference']['optimiser']} is not possible; use inference=adam or dsvi"
            )
        if cfg["inference"].get("bound", "vi") != "vi":
            raise UserError(
                f"model={cfg['model']['name']} is trained on its own bound, inference.bound="
                f"{cfg['inference']['bound']} is not possible; use inference=adam or dsvi"
            )

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
        network = self.network(split.dim, split.outputs)
        batches = Batches(split.n_train, inference["batch"], run.seed)
        resident = 8 * split.n_train * (split.dim + split.outputs) <= cfg["engine"]["memory_limit_gb"] * 1e9
        trainer = get_trainer(
            NetworkSpec(
                network=network,
                batch=batches.batch,
                full_batch=batches.full and resident,
                samples=inference["samples"],
                precision=cfg["precision"],
                xla=cfg["engine"]["xla"] in ("auto", True),
                device=self.device,
            )
        )
        trainer.reset(
            network.initial(np.random.RandomState(run.seed)),
            rates_from_config(inference),
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
