"""The contract of a model, and how a config's `_target_` becomes one.

A model is a class with the methods of `Model`. GP models get `fit` from the engine; a baseline, or your own,
implements it directly. One file and one yaml (`_target_: my_module.MyModel`) put it into every table.

"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from dgpbench.config import plugins
from dgpbench.config.classes import load_class
from dgpbench.errors import UserError, in_user_file, source_of
from dgpbench.gp import likelihoods

if TYPE_CHECKING:
    from dgpbench.data.split import Split
    from dgpbench.evaluate.predictive import Predictive

ANY = ("regression", "binary", "multiclass")
TASKS: dict[str, tuple[str, ...]] = {  # by file and class
    "classics.gpr.GPR": ("regression",),
    "classics.sparse.SGPR": ("regression",),
    "classics.sparse.FITC": ("regression",),
    "classics.ep_gpc.EPGPC": ("binary",),
    "classics.gfitc.GFITC": ("binary",),
    "classics.vgp.VGP": ANY,
    "classics.gpmc.GPMC": ANY,
    "baselines.mc_dropout.MCDropout": ("regression",),
    "baselines.mdn.MDN": ("regression",),
    "baselines.cvae.CVAE": ("regression",),
    "baselines.deep_ensemble.DeepEnsemble": ("regression",),
    "gp.GPModel": (*ANY, "counts"),
    "mfdgp.MultiFidelity": ("regression",),
}


def refuse_split(cfg: dict, split: Split) -> None:
    """Raise UserError if the split's task is none of the model's, or its likelihood does not fit the task."""
    place = str(cfg["model"]["_target_"]).removeprefix("dgpbench.models.")
    if place not in TASKS:
        return
    check_tasks(TASKS[place], cfg["model"]["name"], split)
    if not place.startswith("baselines."):
        likelihoods.fitting(cfg, split)


def check_tasks(tasks: tuple[str, ...], name: str, split: Split) -> None:
    """Raise UserError if the split's task is none of a model's."""
    if split.task in tasks:
        return
    better = {"regression": "linear, knn, sgp or dgp2", "counts": "sgp or dgp2"}
    raise UserError(
        f"model {name} is for {' and '.join(tasks)}; dataset {split.dataset} is {split.task}: use "
        f"model={better.get(split.task, 'logistic, knn, sgp or dgp2')}, or another dataset"
    )


METHODS = ("fit", "predict", "parameters", "load_parameters")


@runtime_checkable
class Model(Protocol):
    """What a run asks of a model. All data are standardised; the harness returns to original units.

    Optional: `start(split, seed)`, a line for the plan; `latent = True`, where predictions average over
    latent variables and take protocol.latent_samples; `discrete = True`, where y takes separate values and a
    KDE means nothing; `log_density(X, Y, samples, seed)`, the logs of terms (S, N) whose mean is p(y | x),
    where a model can do better than what `predict` gives; `tasks`, those it is for (regression, binary,
    multiclass, counts), where they are not the first three; `keeps_rows = True`, where training rows
    are among the parameters.
    """

    def fit(self, split: Split, run) -> object | None:
        """Train on split.X_train, split.Y_train. `run` has seed, steps, seconds, folder, reporter.

        May return an object with fields for the record (engine.loop.TrainResult); None is fine.
        """

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """The predictive distribution at X (N, D), from `samples` Monte Carlo samples where it needs any."""

    def parameters(self) -> dict[str, np.ndarray]:
        """Return everything that `load_parameters` needs: plain arrays, a torch state_dict or a ModelFile."""

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        """Restore a fitted model, so that it can be scored again without training.

        `values` is what `parameters` returned; of a joblib ModelFile it is the object, of ONNX the bytes.
        """


def create(cfg: dict) -> Model:
    """Build the model that `cfg["model"]["_target_"]` names from the whole config."""
    plugins.declare("kernel", cfg["model"].get("kernels", {}))
    target = cfg["model"]["_target_"]
    model = _built(load_class("model._target_", target), target, cfg)
    missing = [name for name in METHODS if not hasattr(model, name)]
    if missing:
        where = source_of(type(model))
        raise UserError(f"{where}model._target_={target} lacks {', '.join(missing)}; see docs/first-model.md")
    return model


def _built(kind: type, target: str, cfg: dict) -> Model:
    """Return kind(cfg); if that fails, raise UserError with the line of the user's file."""
    try:
        inspect.signature(kind).bind(cfg)
    except TypeError:
        raise UserError(
            f"model._target_={target} cannot be built: its __init__ must take the config, "
            "def __init__(self, cfg); see docs/first-model.md"
        ) from None
    try:
        return kind(cfg)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        if not (place := in_user_file(error)):
            raise
        what = f"{type(error).__name__}: {error}{place}"
        raise UserError(
            f"model._target_={target} cannot be built: {what}; see docs/first-model.md"
        ) from error


def check_task(model: Model, name: str, split: Split) -> None:
    """Raise UserError if the split's task is none of the model's."""
    check_tasks(getattr(model, "tasks", ANY), name, split)
