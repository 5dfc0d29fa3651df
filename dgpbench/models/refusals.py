"""Models that do not fit the data of a split. Light: asked before a model's file, and TensorFlow with it, is
loaded. What the config alone rules out is in config/refusals.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dgpbench.errors import UserError
from dgpbench.gp import likelihoods

if TYPE_CHECKING:
    from dgpbench.data.split import Split

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
