"""Fitted models: predictions at new inputs, in original units, with the scaling of the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.config.budget import budget_of, planned_steps
from dgpbench.data.split import Split
from dgpbench.data.transform import Transform, separate
from dgpbench.engine.context import RunContext, Silent
from dgpbench.engine.stopping import StopRule
from dgpbench.errors import Diverged, Interrupted, UserError
from dgpbench.evaluate.evaluation import chunk_rows, chunk_seed
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.quantiles import mixture_quantiles
from dgpbench.evaluate.rows import EXACT_COMPONENTS
from dgpbench.experiment import evaluation_protocol, run_seed
from dgpbench.models.base import Model, create
from dgpbench.store import read
from dgpbench.store.locate import locate
from dgpbench.store.model_files import check_allowed, file_of, load_parameters
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    import pandas as pd

LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


@dataclass(frozen=True)
class Prediction:
    """Predictions at N inputs, original units. Arrays of one output are (N,), of several (N, P).

    Regression has mean, sd and quantiles (N, L) or (N, P, L) at `levels`; classification has probs (N, C) in
    the order of `classes`, and labels. What a task does not have raises ValueError.
    """

    arrays: dict[str, np.ndarray]
    levels: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def mean(self) -> np.ndarray:
        return self._array("mean")

    @property
    def sd(self) -> np.ndarray:
        return self._array("sd")

    @property
    def quantiles(self) -> np.ndarray:
        return self._array("quantiles")

    @property
    def probs(self) -> np.ndarray:
        return self._array("probs")

    @property
    def labels(self) -> np.ndarray:
        """The likeliest class of each row."""
        return np.asarray(self.classes)[self.probs.argmax(1)]

    def columns(self) -> dict[str, np.ndarray]:
        """Arrays (N,) by column: mean, sd, q2.5, ...; or class and p_LABEL. Outputs are numbered from 0."""
        if self.classes:
            shares = {f"p_{name}": self.probs[:, i] for i, name in enumerate(self.classes)}
            return {"class": self.labels} | shares
        several = self.mean.ndim == 2
        out: dict[str, np.ndarray] = {}
        for p in range(self.mean.shape[1] if several else 1):
            tail, pick = (f"_{p}", (slice(None), p)) if several else ("", (slice(None),))
            out[f"mean{tail}"], out[f"sd{tail}"] = self.mean[pick], self.sd[pick]
            for i, level in enumerate(self.levels):
                out[f"q{100 * level:g}{tail}"] = self.quantiles[pick][:, i]
        return out

    def _array(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            has = ", ".join(self.arrays)
            raise ValueError(f"no {name} in a prediction of this task; it has {has}")
        return self.arrays[name]

    def frame(self) -> pd.DataFrame:
        """The columns as a DataFrame, one row per input."""
        import pandas as pd

        return pd.DataFrame(self.columns())


@dataclass(frozen=True)
class Fitted:
    """A trained model with its scaling. `config` is the whole config of its run."""

    model: Model
    transform: Transform
    config: dict

    def predict(self, X: np.ndarray, quantiles: Sequence[float] = LEVELS) -> Prediction:
        """Predictions at X (N, D), given in original units.

        Chunks, seeds and numbers of samples are those of the run's evaluation: at its test rows these are
        the predictions of its record.
        """
        X = self.transform.inputs(X)
        protocol, seed = evaluation_protocol(self.model, self.config), run_seed(self.config)
        classes = self.transform.classes
        parts = predictive_chunks(self.model, X, protocol, seed, self.transform.outputs, len(classes))
        if classes:
            probs = [_probs(part) for _, part in parts]
            return Prediction({"probs": _joined(probs, (0, len(classes)))}, classes=classes)
        levels = np.asarray(quantiles, np.float64)
        shift, scale, P = self.transform.y_mean, self.transform.y_std, self.transform.outputs
        means, sds, found = [], [], []
        for start, part in parts:
            means.append(part.mixture_mean() * scale + shift)
            sds.append(part.mixture_sd() * scale)
            q = quantiles_of(part, levels, protocol["draws"], seed, start)
            found.append(q * scale[:, None] + shift[:, None])
        arrays = {
            "mean": _joined(means, (0, P)),
            "sd": _joined(sds, (0, P)),
            "quantiles": _joined(found, (0, P, len(levels))),
        }
        if P == 1:
            arrays = {name: array[:, 0] for name, array in arrays.items()}
        return Prediction(arrays, levels=tuple(float(level) for level in levels))


def load(
    run: str | Path | Unit, results: str | Path | None = None, allow_models: Sequence[str] = ()
) -> Fitted:
    """Return the fitted model of a finished run.

    Parameters
    ----------
    run : Run, path or str
        What `dgpbench.run` returned, a run's folder, its record.json, or the first digits of its key.
    results : path, optional
        Folder to search for a key; default: DGPBENCH_RESULTS, else results.
    allow_models : sequence of str, default=()
        Names of models that may be loaded from files of other libraries, which can run any code.

    Returns
    -------
    Fitted

    Raises
    ------
    UserError
        If there is no such run, or its model is in another library's file and is not allowed.
    """
    unit = run if isinstance(run, Unit) else locate(run, results)
    check_allowed(unit, allow_models)
    config = unit.record["config"]
    model = create(config)
    values, transform = separate(read.arrays(unit))
    model.load_parameters(load_parameters(unit, allow_models) if file_of(unit.record) else values)
    return Fitted(model, transform or _from_data(unit), config)


def train(cfg: dict, split: Split, note: Callable[[str], None] = lambda text: None) -> Model:
    """A model fitted to a split of arrays, with nothing kept on disk."""
    model, budget, engine = create(cfg), budget_of(cfg), cfg["engine"]
    if (tracker := cfg.get("tracker", {}).get("name", "none")) != "none":
        raise UserError(f"tracker={tracker} logs runs and sweeps only; remove it")
    with TemporaryDirectory() as folder:
        run = RunContext(
            key="",
            folder=Path(folder),
            seed=cfg["seed"],
            steps=planned_steps(budget, split.n_train),
            seconds=budget["seconds"],
            stop=StopRule.of(budget),
            reporter=Silent(),
            note=note,
            block_seconds=engine["block_seconds"],
            checkpoint_seconds=np.inf,
        )
        try:
            model.fit(split, run)
        except Interrupted as error:  # nothing stays here from which a run could resume
            raise KeyboardInterrupt from error
    return model


def predictive_chunks(
    model: Model, X: np.ndarray, protocol: dict, seed: int, outputs: int, classes: int = 0
) -> Iterator[tuple[int, Predictive]]:
    """(first row, predictive) over scaled rows X, with the chunks and seeds of an evaluation.

    A model without a density is asked for protocol["draws"] draws of y.
    """
    samples, draws = protocol["test_samples"], protocol["draws"]
    rows = chunk_rows(samples, samples, classes) if classes else chunk_rows(samples, draws, outputs)
    for index, start in enumerate(range(0, len(X), rows)):
        part, part_seed = X[start : start + rows], chunk_seed(seed, index)
        predictive = model.predict(part, samples, part_seed)
        if predictive.kind == "draws" and samples < draws:
            samples = draws
            predictive = model.predict(part, samples, part_seed)
        if problem := predictive.problem():
            raise Diverged(problem)
        yield start, predictive


def quantiles_of(predictive: Predictive, levels: np.ndarray, draws: int, seed: int, first: int) -> np.ndarray:
    """Quantiles (N, P, L): exact of a small mixture, else those of `draws` draws, as in an evaluation."""
    if predictive.mean is not None and predictive.var is not None:
        S, N, P = predictive.mean.shape
        if S <= EXACT_COMPONENTS:
            moments = predictive.mean, np.sqrt(predictive.var)
            mean, sd = (np.ascontiguousarray(array.reshape(S, N * P).T) for array in moments)
            weights = predictive.weights
            weights = None if weights is None else np.repeat(weights, P, axis=1).T
            return mixture_quantiles(mean, sd, weights, levels).reshape(N, P, -1)
    found = np.quantile(predictive.draw(draws, seed, first), levels, axis=0)  # L, N, P
    return found.transpose(1, 2, 0)


def _probs(predictive: Predictive) -> np.ndarray:
    if predictive.probs is None:
        raise ValueError(f"a model of classes must predict probabilities, not {predictive.kind}")
    return predictive.probs


def _joined(arrays: Sequence[np.ndarray], empty: tuple[int, ...]) -> np.ndarray:
    return np.concatenate(arrays) if len(arrays) else np.empty(empty)


def _from_data(unit: Unit) -> Transform:
    """The scaling of a run from before it was stored: made again from its data."""
    from dgpbench.config import compose
    from dgpbench.data.load import load_split

    paths = compose()["paths"] | {"results": os.fspath(unit.folder)}
    split = load_split(unit.record["config"] | {"paths": paths})
    if split.data_hash != unit.record["data_hash"]:
        raise UserError(f"{unit.path}: the data are not those it was trained on; fetch the dataset again")
    return Transform.of(split)
