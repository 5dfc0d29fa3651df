"""Classes that a config names by `_target_`: models and methods, ours or in a file of the user's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config import plugins
from dgpbench.config.keys import LATER_DEFAULTS
from dgpbench.errors import UserError, in_user_file, message

if TYPE_CHECKING:
    from dgpbench.gp.likelihoods.base import Likelihood
    from dgpbench.inference.base import Method

# Configs, keys and records name classes by the module in which they were first published.
MOVED = {
    "dgpbench.inference.aep": "dgpbench.inference.alpha",
    "dgpbench.inference.locations": "dgpbench.inference.global_inducing",
    "dgpbench.inference.star": "dgpbench.inference.joint",
    "dgpbench.models.classics.ep_gpc": "dgpbench.models.classics.ep",
    "dgpbench.models.classics.gfitc": "dgpbench.models.classics.ep",
    "dgpbench.models.classics.gpr": "dgpbench.models.classics.gpflow_models",
    "dgpbench.models.classics.sparse": "dgpbench.models.classics.gpflow_models",
    "dgpbench.models.classics.vgp": "dgpbench.models.classics.gpflow_models",
    "dgpbench.models.baselines.deep_ensemble": "dgpbench.models.baselines.neural",
    "dgpbench.models.baselines.mc_dropout": "dgpbench.models.baselines.neural",
    "dgpbench.models.baselines.mdn": "dgpbench.models.baselines.neural",
    "dgpbench.models.baselines.linear": "dgpbench.models.baselines.linear_models",
    "dgpbench.models.baselines.logistic": "dgpbench.models.baselines.linear_models",
    "dgpbench.models.baselines.knn": "dgpbench.models.baselines.sklearn_models",
    "dgpbench.models.baselines.shallow": "dgpbench.models.baselines.sklearn_models",
}


def load_class(setting: str, target: str) -> type:
    """Import the class `module.Class` that a setting names; the module may be in the current folder."""
    module_name, _, class_name = target.rpartition(".")
    module_name = MOVED.get(module_name, module_name)
    if "" not in sys.path:
        sys.path.append("")  # a model in the current folder, which stands in for nothing else
    try:
        return getattr(import_module(module_name), class_name)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise UserError(
            f"{setting}={target} cannot be imported ({error}); give module.Class, with the module installed"
            " or in the current folder"
        ) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError):
            where = f" ({Path(error.filename or module_name).name}, line {error.lineno})"
        elif not (where := in_user_file(error)):
            raise
        what = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else message(error)}"
        raise UserError(f"{setting}={target} cannot be imported: {what}{where}; fix it first") from error


def likelihood_class(settings: Mapping[str, Any]) -> type[Likelihood]:
    """Return the likelihood that settings mean by `_target_`, or else by `name`, which is not auto."""
    name, target = settings["name"], settings.get("_target_")
    if target is None:
        return plugins.load(plugins.entries("likelihood")[name])
    kind = load_class("likelihood._target_", str(target))
    if getattr(kind, "name", None) != name:
        page = "docs/add-kernel-likelihood-metric-dataset.md"
        raise UserError(f"likelihood._target_={target} is not likelihood {name}; see {page}")
    return kind


def method_class(inference: Mapping[str, Any]) -> type[Method]:
    """The inference method of a config; one without `_target_` is from before there was a choice."""
    target = inference.get("_target_", LATER_DEFAULTS["inference._target_"])
    kind = load_class("inference._target_", target)
    missing = [name for name in ("fields", "refuses", "bound", "update", "rates") if not hasattr(kind, name)]
    if missing:
        raise UserError(f"inference._target_={target} lacks {', '.join(missing)}; see docs/add-inference.md")
    return kind


def create_method(cfg: Mapping[str, Any]) -> Method:
    """The method that a config names, with its settings."""
    return method_class(cfg["inference"])(cfg)
