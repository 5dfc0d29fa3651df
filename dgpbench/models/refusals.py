"""What models of this package refuse by the config, or by the task, alone. Light: asked before a model's
file, and TensorFlow with it, is loaded; the models themselves ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dgpbench.config.keys import later_defaults
from dgpbench.config.schema import COUNT, Field
from dgpbench.config.targets import create_method
from dgpbench.errors import UserError
from dgpbench.gp import targets
from dgpbench.models.baselines.options import hidden_sizes, option

ANY = ("regression", "binary", "multiclass")


def gaussian_noise(cfg: dict) -> None:
    """Refuse another likelihood than the Gaussian."""
    if (name := cfg["likelihood"]["name"]) not in ("auto", "gaussian"):
        raise UserError(
            f"likelihood={name} is not possible with model={cfg['model']['name']}, whose noise is Gaussian;"
            " use model=vgp or sgp, or leave likelihood=auto"
        )


def probit(cfg: dict) -> None:
    """Refuse another likelihood than the probit."""
    if (name := cfg["likelihood"]["name"]) not in ("auto", "bernoulli"):
        raise UserError(
            f"likelihood={name} is not possible with model={cfg['model']['name']}, whose link is the probit; "
            "use likelihood=bernoulli, or model=vgp or sgp"
        )


def burn_in_and_thinning(cfg: dict) -> tuple[int, int]:
    """Steps of GPMC that are thrown away, and steps for each sample that is kept."""
    share, kept = option(cfg, "burn_in", Field(float, above=0, below=1)), option(cfg, "kept", COUNT)
    if (steps := cfg["budget"]["steps"]) is None:
        raise UserError(
            "model=gpmc counts its burn-in in steps; set budget.steps, alone or with budget.seconds"
        )
    burn_in = int(share * steps)
    if (left := steps - burn_in) < kept:
        raise UserError(
            f"budget.steps={steps} leaves {left} samples behind model.burn_in={share:g}, fewer than "
            f"model.kept={kept}; raise budget.steps or lower model.kept"
        )
    return burn_in, left // kept


def network(cfg: dict) -> None:
    """Refuse methods that cannot train a network."""
    if reason := create_method(cfg).refuses_network(cfg["model"]["name"]):
        raise UserError(reason)


def units_to_drop(cfg: dict) -> None:
    """Refuse a dropout network without hidden layers."""
    if not hidden_sizes(cfg):
        raise UserError("model.hidden=[] leaves nothing to drop; give widths of hidden layers, e.g. [50,50]")
    network(cfg)


def one_sample(cfg: dict) -> None:
    """Refuse samples of a likelihood that is exact."""
    network(cfg)
    if (samples := cfg["inference"]["samples"]) != 1:
        raise UserError(
            f"inference.samples={samples} is not possible with model={cfg['model']['name']}: its likelihood "
            "is exact; leave inference.samples at 1"
        )


def dropout_of_hidden(cfg: dict) -> None:
    """Refuse a CVAE with dropout and without hidden layers."""
    later = {"model": later_defaults("model") | cfg["model"]}  # an older config has none of these
    if option(later, "dropout", Field(float, low=0, below=1)) and not hidden_sizes(cfg):
        raise UserError("model.dropout needs hidden units to drop; set model.hidden, e.g. [50], or 0")
    network(cfg)


OWN: dict[str, tuple[tuple[str, ...], Callable[[dict], Any] | None]] = {  # file and class: tasks, refusal
    "classics.gpr.GPR": (("regression",), gaussian_noise),
    "classics.sparse.SGPR": (("regression",), gaussian_noise),
    "classics.sparse.FITC": (("regression",), gaussian_noise),
    "classics.ep_gpc.EPGPC": (("binary",), probit),
    "classics.gfitc.GFITC": (("binary",), probit),
    "classics.vgp.VGP": (ANY, None),
    "classics.gpmc.GPMC": (ANY, burn_in_and_thinning),
    "baselines.mc_dropout.MCDropout": (("regression",), units_to_drop),
    "baselines.mdn.MDN": (("regression",), one_sample),
    "baselines.cvae.CVAE": (("regression",), dropout_of_hidden),
    "baselines.deep_ensemble.DeepEnsemble": (("regression",), network),
    "gp.GPModel": ((*ANY, "counts"), None),
    "mfdgp.MultiFidelity": (("regression",), None),
}


def refuse(cfg: dict) -> None:
    """UserError where the config alone tells that its model cannot be."""
    _, refusal = OWN.get(_place(cfg), (ANY, None))
    if refusal:
        refusal(cfg)


def refuse_split(cfg: dict, split) -> None:
    """The same where the data tell it: their task is not the model's, or its likelihood not theirs."""
    if (place := _place(cfg)) not in OWN:
        return
    check_tasks(OWN[place][0], cfg["model"]["name"], split)
    if not place.startswith("baselines."):
        targets.fitting(cfg, split)


def check_tasks(tasks: tuple[str, ...], name: str, split) -> None:
    """UserError where the split's task is none of a model's."""
    if split.task in tasks:
        return
    better = {"regression": "linear, knn, sgp or dgp2", "counts": "sgp or dgp2"}
    raise UserError(
        f"model {name} is for {' and '.join(tasks)}; dataset {split.dataset} is {split.task}: use "
        f"model={better.get(split.task, 'logistic, knn, sgp or dgp2')}, or another dataset"
    )


def _place(cfg: dict) -> str:
    return str(cfg["model"]["_target_"]).removeprefix("dgpbench.models.")
