"""One small dataset of two outputs for all contract tests, so that each model is compiled once."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.models.base import create, load_class

N_TRAIN, N_ALL, DIM, OUTPUTS, SAMPLES = 30, 34, 2, 2, 64
SMALL = [
    "budget.steps=5",
    f"protocol.test_samples={SAMPLES}",
    "protocol.draws=64",
    "protocol.latent_samples=64",
    "engine.xla=false",
]


DEEPER = (
    "dgp4",
    "dgp5",
    "gp_gp_gp",
    "lv_gp_gp_gp",
    "sgp500",
    "cvae_100_100",
    "mdn_50",
)  # larger members of a family


def marks(name: str) -> list:
    """Return the marks of a model that is not among the fast ones."""
    return [pytest.mark.slow, *([pytest.mark.long] if name in DEEPER else [])]


def arrays(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    X = rng.randn(rows, DIM)
    Y = np.stack([np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1], np.cos(X[:, 1])], 1)
    return X, Y + 0.1 * rng.randn(rows, OUTPUTS)


@lru_cache
def model_fields(model: str) -> dict:
    return compose([f"model={model}"])["model"]


@lru_cache
def tasks(model: str) -> tuple[str, ...]:
    """What a model says it is for; all tasks where it says nothing."""
    found = load_class("model._target_", model_fields(model)["_target_"])
    return getattr(found, "tasks", ("regression", "binary", "multiclass"))


def small_fields(model: str) -> list[str]:
    """Few inducing points and samples, for models that have such."""
    small = {"num_inducing": 5, "kept": 2}
    return [f"model.{name}={value}" for name, value in small.items() if name in model_fields(model)]


def config(model: str, *overrides: str) -> dict:
    return compose([f"model={model}", *SMALL, *small_fields(model), *overrides])


@lru_cache
def fitted(model: str, seed: int = 0, block_seconds: float = 1.0):
    """A model trained on `arrays`; tiny block_seconds take its steps one by one."""
    cfg = config(model, f"seed={seed}")
    made = create(cfg)
    folder = Path("no checkpoint is written")
    steps = cfg["budget"]["steps"]
    run = RunContext("0" * 64, folder, seed, steps, None, Silent(), lambda text: None, block_seconds)
    made.fit(Split.from_arrays(*arrays(N_TRAIN)), run)
    return made


def unit_config(folder: Path, model: str, *overrides: str) -> dict:
    """The same data as a csv file: 34 rows, of which a run trains on 30."""
    file = folder / "small.csv"
    if not file.exists():
        np.savetxt(file, np.hstack(arrays(N_ALL)), delimiter=",")
    paths = [
        f"paths.results={folder / 'results'}",
        f"paths.datasets={folder / 'datasets'}",
        "paths.mirror=null",
    ]
    data = ["dataset=csv", f"dataset.path={file}", "dataset.target=[2,3]"]
    return config(model, *data, *paths, *overrides)
