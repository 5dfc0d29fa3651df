"""Keys of runs: hashes of what determines the numbers, and of nothing else.

An option is added with the value that means what was done before it (`LATER_DEFAULTS`). A config from before
the option is completed when it is read, so that it has the key of the old one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dgpbench.config import plugins
from dgpbench.config.schema import MODEL
from dgpbench.config.sections import flatten, nested

NUMERICS_VERSION = 1  # raise it when a change alters the results of an unchanged config

# Options added after the first release, with their value at introduction: a field that equals it is left
# out of the key, so that a new option changes no old key.
LATER_DEFAULTS: dict[str, Any] = {
    "dataset.task": "regression",
    "dataset.train_rows": None,
    "dataset.scaled": True,
    "dataset.bin_size": None,
    "dataset.level": None,
    "dataset.train_levels": "all",
    "dataset.label": None,
    "dataset.prepare": "none",
    "dataset.per_class": None,
    "protocol.evaluate": "test",
    "protocol.latent_samples": 2000,
    "protocol.fixed_test": True,
    "protocol.stratify": False,
    "protocol.row_number": False,
    "protocol.pixels": "unit",
    "protocol.layer_variances": False,
    "protocol.test_rows": None,
    "protocol.train_rows": None,
    "model.latent_dim": 1,
    "model.latent_scale": 1.0,
    "model.inner_gps": None,
    "model.mixing_trainable": False,
    "model.inner_variance_trainable": True,
    "model.output_gps": None,
    "model.projection_dim": None,
    "model.projection_scale": 0.1,
    "model.use_inputs": True,
    "model.likelihood_variance_trainable": True,
    "model.output_mixing": "principal",
    "model.mixing_lengthscale": 1.0,
    "model.output_mixing_trainable": True,
    "model.dropout": 0.0,
    "model.inducing": "kmeans",
    "model.kronecker": False,
    "model.priors": {},
    "model.compat": None,
    "model.per_output": "none",
    "model.start": "config",
    "budget.growth": "none",
    "budget.max_steps": None,
    "budget.stop": "none",
    "budget.window": 1000,
    "budget.tolerance": 0.002,
    "budget.patience": 2,
    "model.whiten": True,
    "inference._target_": "dgpbench.inference.variational.Variational",
    "inference.bound": "vi",
    "inference.importance_samples": 5,
    "inference.dreg": False,
    "inference.latent_q": "amortised",
    "inference.encoder": [20, 20],
    "inference.quadrature.rule": "adaptive",
    "inference.quadrature.nodes": 64,
    "inference.hyperparameters": "trained",
    "inference.natgrad.inner_gamma": None,
    "inference.natgrad.step": "schedule",
    "inference.natgrad.direction": "natural",
    "likelihood.name": "auto",
    "likelihood.epsilon": 1e-3,
    "likelihood.df": 3.0,
    "likelihood.scale": 1.0,
    "likelihood.shape": 1.0,
    "likelihood.sigma": 1.0,
    "likelihood.low": -2.0,
    "likelihood.high": 2.0,
    "likelihood.rescale": False,
    "likelihood.bin_size": None,
}

DATA_FIELDS = (
    *("name", "task", "train_rows", "scaled", "bin_size", "level", "train_levels"),
    *("label", "per_class", "prepare"),
)
SETTINGS = ("protocol", "model", "inference", "budget")
LABELS = tuple(f"{section}.name" for section in SETTINGS)
DEFAULT_LIKELIHOOD = {  # by task
    "regression": "gaussian",
    "binary": "bernoulli",
    "multiclass": "robustmax",
    "counts": "poisson",
}


def later_defaults(section: str) -> dict[str, Any]:
    """The later options of a section, nested, at their value at introduction."""
    prefix = f"{section}."
    return nested({n.removeprefix(prefix): v for n, v in LATER_DEFAULTS.items() if n.startswith(prefix)})


def likelihood_settings(cfg: dict) -> dict[str, Any]:
    """The likelihood's fields, those of all others at their defaults; an older config has none."""
    return later_defaults("likelihood") | cfg.get("likelihood", {})


def likelihood_name(cfg: dict, task: str) -> str:
    """The likelihood that a config means for a task."""
    name = likelihood_settings(cfg)["name"]
    return DEFAULT_LIKELIHOOD[task] if name == "auto" else name


def settings(cfg: dict) -> dict[str, Any]:
    """The dotted fields that determine the numbers. The data enter by DATA_FIELDS and their hash.

    Naming the likelihood that is the task's default is the same as naming none.
    """
    if cfg["model"].get("closed_form"):  # nothing is optimised
        kept = {section: cfg[section] for section in ("protocol", "model")}
    else:
        kept = {section: cfg[section] for section in SETTINGS} | {"precision": cfg["precision"]}
        if cfg["model"].get("own_training"):  # by its own optimiser, in float64
            del kept["inference"], kept["precision"]
        likelihood, task = likelihood_settings(cfg), cfg["dataset"].get("task", "regression")
        default = likelihood["name"] == DEFAULT_LIKELIHOOD.get(task)
        kept["likelihood"] = likelihood | {"name": "auto"} if default else likelihood
    kept["dataset"] = {k: cfg["dataset"][k] for k in DATA_FIELDS if k in cfg["dataset"]}
    if "budget" in kept and cfg["budget"]["seconds"] is not None:  # how far it gets depends on the machine
        kept.update(device=cfg["device"], threads=cfg["threads"])
    flat = flatten(kept)
    return {name: value for name, value in flat.items() if name not in LABELS}


def config_key(cfg: dict, data_hash: str) -> str:
    """Key without split and seed: a table cell averages records of exactly one of these."""
    return _digest(settings(cfg), data_hash)


def run_key(cfg: dict, data_hash: str) -> str:
    """Key of one unit. Under budget.seconds, give `device` and `threads` resolved, not as auto and null."""
    return _digest({**settings(cfg), "split": cfg["split"], "seed": cfg["seed"]}, data_hash)


def hashed(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields as they enter a key: later ones at their value at introduction left out, equal numbers equal."""
    return {k: _plain(v) for k, v in fields.items() if k not in LATER_DEFAULTS or v != LATER_DEFAULTS[k]}


def _digest(fields: dict[str, Any], data_hash: str) -> str:
    document = {"numerics": NUMERICS_VERSION, "data": data_hash, "config": hashed(fields)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Equal numbers are written equally: 2.0 as 2."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


OUTSIDE_KEYS: dict[str, Any] = {"engine.trace_test": False}  # later options that determine no number


def complete(cfg: dict) -> dict:
    """A config with every later option at its value at introduction, in nested sections too."""
    out = dict(cfg)
    if "model" in cfg:
        out.setdefault("likelihood", {"name": LATER_DEFAULTS["likelihood.name"]})
    if "experiment" in cfg:
        out.setdefault("tuned", None)
    for section, later in _later(*_kind(out)).items():
        out[section] = merged(later, out[section])
    return out


def _kind(cfg: dict) -> tuple[tuple[str, ...], str, bool, str]:
    """All that decides which later options concern a config: the same for most records of a scan."""
    sections = tuple(name for name, section in cfg.items() if isinstance(section, dict))
    likelihood, model, inference = (
        section if isinstance(section := cfg.get(name), dict) else {}
        for name in ("likelihood", "model", "inference")
    )
    method = inference.get("_target_", LATER_DEFAULTS["inference._target_"])
    return sections, str(likelihood.get("name")), "layers" in model, str(method)


@lru_cache(maxsize=256)
def _later(sections: tuple[str, ...], likelihood: str, layers: bool, method: str) -> dict[str, dict]:
    """Later options that concern such a config, by section."""
    fits = {
        "model": lambda field: layers and field in MODEL,
        "likelihood": lambda field: field in _likelihood_fields(likelihood),
        "inference": lambda field: method == LATER_DEFAULTS["inference._target_"],
    }
    options = LATER_DEFAULTS | OUTSIDE_KEYS
    found = {}
    for name, value in options.items():
        section, _, field = name.partition(".")
        if section in sections and fits.get(section, lambda field: True)(field):
            found[name] = value
    return nested(found)


def _likelihood_fields(name: str) -> Mapping[str, Any]:
    entry = plugins.built_in("likelihood").get(name)
    return plugins.load(entry).fields if entry else {}


def merged(defaults: dict, given: dict) -> dict:
    """`given` over `defaults`, section by section: a mapping that is given may still lack fields."""
    out = dict(given)
    for name, value in defaults.items():
        if name not in out:
            out[name] = dict(value) if isinstance(value, dict) else value
        elif isinstance(value, dict) and isinstance(out[name], dict):
            out[name] = merged(value, out[name])
    return out
