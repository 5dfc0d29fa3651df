"""Reject settings that are valid one by one but do not go together.

`check` is called for every composed config, and `check_data` before a dataset is read. models/base.py
compares a model with the data of a split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dgpbench.config import plugins
from dgpbench.config.classes import create_method, likelihood_class
from dgpbench.config.derived import budget_of, is_trial, num_splits
from dgpbench.config.keys import later_defaults
from dgpbench.config.schema import COUNT, NUMBERS, SPLIT_RULES, Field, show_value
from dgpbench.config.sections import hidden_sizes, option
from dgpbench.errors import UserError

if TYPE_CHECKING:
    from dgpbench.data.catalogue import Entry
    from dgpbench.inference.base import Method

OURS = "dgpbench."  # prefix of the targets of built-in models
MODELS = "dgpbench.models."
UNUSED = ("inference", "precision")  # by models that are fitted in their own way; a budget is a limit to them
FIDELITIES = f"{MODELS}mfdgp.MultiFidelity"  # its GP layers are the levels of the data, not `model.layers`
FOR_CLASSES = ("matthews2016",)  # protocols
TRAIN_LEVELS = ("all", "highest")
SAMPLED = f"{MODELS}classics.gpmc.GPMC"  # samples its hyperparameters


def check(cfg: dict) -> None:
    """Raise UserError for settings that do not go together, in a config whose fields are valid."""
    if cfg["precision"] == "auto":
        raise UserError("precision=auto has not been resolved; give one of float64, mixed, float32")
    _settings_of_model(cfg["model"])
    _protocol(cfg)
    _not_for_gps(cfg)
    _by_model(cfg)
    if not unused_sections(cfg["model"]):
        _by_method(cfg, create_method(cfg))
    _budget(cfg)


def unused_sections(model: dict) -> tuple[str, ...]:
    """Return the sections that make no difference to a model, because it is fitted in its own way."""
    return UNUSED if model.get("closed_form") or model.get("own_training") else ()


def section_of(word: str) -> str:
    """Return the section, group or top-level field that a word name=value sets."""
    return word.partition("=")[0].lstrip("+").split(".")[0]


def check_given(model: dict, words: Sequence[str]) -> None:
    """Raise UserError if one of the words that the user typed makes no difference to the model."""
    for word in words:
        if section_of(word) in unused_sections(model):
            how = f"by {model['trained_by']}" if model.get("trained_by") else "in closed form"
            raise UserError(
                f"model={model['name']} is fitted {how} and has no use for {word}; leave it out, or "
                "take a model that has, such as model=sgp"
            )


def check_tuned(model: dict, names: Sequence[str]) -> None:
    """Raise UserError if a setting to tune makes no difference to the model."""
    idle = (*unused_sections(model), *(("budget",) if model.get("closed_form") else ()))
    for name in names:
        if section_of(name) in idle:
            raise UserError(
                f"{name} cannot be tuned: it makes no difference to model={model['name']}; give settings of "
                "the model, such as those of `dgpbench run --cfg`"
            )


# ---- protocol and budget --------------------------------------------------------------------------------


def _protocol(cfg: dict) -> None:
    protocol = cfg["protocol"]
    check_split(cfg["split"], cfg["dataset"], protocol)
    if protocol["train_fraction"] == 1 and protocol["name"] != "whole":
        raise UserError(
            "protocol.train_fraction=1 leaves no test rows; it must be below 1, or take protocol=whole, "
            "which scores the training rows"
        )
    if is_trial(cfg) and not protocol["validation"]:
        raise UserError(
            "protocol.evaluate=validation needs rows to evaluate; set protocol.validation, e.g. to 0.1"
        )


def _budget(cfg: dict) -> None:
    budget = cfg["budget"]
    if budget["steps"] is None and budget["seconds"] is None:
        raise UserError("the budget is empty; set budget.steps or budget.seconds")
    if budget.get("max_steps") and budget["growth"] == "none":
        raise UserError(
            "budget.max_steps is the most that budget.growth=sqrt makes of budget.steps, and these do not "
            "grow here; set budget.steps, or budget.growth=sqrt too"
        )
    _stop(cfg)


def _stop(cfg: dict) -> None:
    """Raise UserError if budget.stop does not fit the model or the protocol."""
    stop, model, protocol = budget_of(cfg)["stop"], cfg["model"], cfg["protocol"]
    if stop == "none":
        return
    if model.get("own_training") or model.get("closed_form"):
        raise UserError(
            f"budget.stop={stop} is not for model={model['name']}, which trains in its own way; leave it out"
        )
    if stop == "validation" and "layers" not in model:
        raise UserError(
            f"budget.stop=validation is for GP models; model={model['name']} is none: use converged or none"
        )
    if stop == "validation" and (not protocol["validation"] or is_trial(cfg)):
        raise UserError(
            "budget.stop=validation takes rows out of the training rows to look at; set protocol.validation, "
            "e.g. to 0.1, with protocol.evaluate=test"
        )


# ---- data -----------------------------------------------------------------------------------------------


def check_data(entry: Entry, protocol: dict, split: int) -> None:
    """Raise UserError for settings of a dataset and a protocol that do not go together."""
    rule, levels = protocol["split_rule"], entry.settings.get("train_levels", "all")
    if rule not in SPLIT_RULES:
        raise UserError(f"protocol.split_rule={rule!r}; allowed: {', '.join(SPLIT_RULES)}")
    if levels not in TRAIN_LEVELS:
        raise UserError(f"dataset.train_levels={levels!r}; allowed: {', '.join(TRAIN_LEVELS)}")
    if levels != "all" and entry.level is None:
        raise UserError(f"dataset.train_levels={levels} needs levels; name their column with dataset.level")
    if (rule == "cover") != bool(rows := protocol.get("test_rows")):
        raise UserError(
            f"protocol.split_rule={rule} with protocol.test_rows={rows}: cover needs test_rows, and only it "
            "takes them; use protocol=cover"
        )
    for name in ("test_rows", "train_rows"):
        if protocol.get(name) and (entry.level is not None or entry.on_demand):
            raise UserError(
                f"protocol.{name}={protocol[name]} is not for {entry.name}, whose rows have levels or are "
                "computed when asked for; leave it out, or use dataset=arm8"
            )
    for name, least in (("label", 0), ("per_class", 1)):
        if (value := entry.settings.get(name)) is None:
            continue
        if not entry.image:
            raise UserError(
                f"dataset.{name}={value} is for sets of images, such as mnist_images; {entry.name} is none"
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UserError(
                f"dataset.{name}={value!r}; a whole number of at least {least}, or null, is needed"
            )
    check_split(split, {"name": entry.name, "train_rows": entry.train_rows}, protocol)
    if protocol["name"] in FOR_CLASSES and entry.task in NUMBERS:
        raise UserError(
            f"protocol={protocol['name']} is for classification and the task of {entry.name} is "
            f"{entry.task}; use protocol=clean, or a dataset with classes"
        )
    if rule in ("extrapolate", "cover") and entry.settings.get("prepare") == "auto":
        raise UserError(
            f"protocol={protocol['name']} orders rows by their inputs, which dataset.prepare=auto makes from "
            "the training rows; use another protocol"
        )
    if rule in ("extrapolate", "cover") and entry.on_demand:
        raise UserError(
            f"protocol={protocol['name']} orders all rows, and those of {entry.name} are computed when "
            "asked for; use dataset=arm8"
        )


def check_split(split: int, dataset: dict, protocol: dict) -> None:
    """Raise UserError if there is no such split."""
    splits = num_splits(dataset, protocol)
    if isinstance(split, int) and not isinstance(split, bool) and 0 <= split < splits:
        return
    if splits < protocol["splits"]:
        raise UserError(
            f"split={split} is out of range; dataset {dataset['name']} has test rows of its own: split 0 "
            "only (protocol.fixed_test=false draws random ones)"
        )
    raise UserError(
        f"split={split} is out of range; protocol {protocol['name']} has splits 0 to {splits - 1}"
    )


# ---- methods --------------------------------------------------------------------------------------------


def _by_method(cfg: dict, method: Method) -> None:
    """Refuse a method that cannot train the model. Models of other packages without `layers` are not asked
    about: what they do with the inference section is their own."""
    model, name = cfg["model"], cfg["model"]["name"]
    if not model.get("whiten", True) and not method.direct_q:
        raise UserError(
            f"model.whiten=false is for inference=dsvi, gd, ngd_adam, ngd_all and fast; "
            f"inference={cfg['inference']['name']} has coordinates of its own"
        )
    if "layers" in model:
        reason = method.refuses(model, cfg["likelihood"]["name"])
    elif model["_target_"] == FIDELITIES:
        reason = method.refuses_levels(name)
    else:
        reason = method.refuses_network(name) if model["_target_"] in NETWORKS else None
    if reason := reason or _unused_priors(cfg, method) or _no_grid(cfg):
        raise UserError(reason)


def _unused_priors(cfg: dict, method: Method) -> str | None:
    """Return why the method ignores model.priors; None if there are none or it uses them."""
    model = cfg["model"]
    if not model.get("priors") or "layers" not in model or method.takes_priors:
        return None
    return (
        "model.priors are for inference=sgpmc and the variational methods, such as fast and dsvi; "
        f"inference={cfg['inference']['name']} has no use for them: leave them out"
    )


def _no_grid(cfg: dict) -> str | None:
    """Return what model.kronecker=true lacks; None if it is not set or lacks nothing."""
    model, start = cfg["model"], cfg["inference"].get("start", {})
    if not model.get("kronecker"):
        return None
    wanted = {
        "model.inducing=grid": model["inducing"] == "grid",
        "model.kernel=rbf": model["kernel"] == "rbf",
        "inference=sgpmc inference.start.inducing=fixed": start.get("inducing") == "fixed",
    }
    missing = [setting for setting, is_set in wanted.items() if not is_set]
    if not missing:
        return None
    return (
        "model.kronecker=true takes a grid apart that stays one, under an RBF kernel: set "
        f"{' '.join(missing)}"
    )


# ---- models ---------------------------------------------------------------------------------------------


def _settings_of_model(model: dict) -> None:
    """Refuse settings of a model that do not go together, whatever the rest of the config."""
    if "layers" in model:
        _layer_order(model["layers"], model)
    if model.get("inner_noise_trainable") and model.get("inner_noise") == 0:
        raise UserError(
            "model.inner_noise=0 cannot be trained; set model.inner_noise_trainable=false or a noise above 0"
        )
    if model.get("output_mixing") == "pixels" and not model.get("output_gps"):
        raise UserError("model.output_mixing=pixels needs GPs to mix; set model.output_gps, e.g. to 50")
    if model.get("output_mixing_trainable") is False and not model.get("output_gps"):
        raise UserError(
            "model.output_mixing_trainable=false needs GPs to mix; set model.output_gps, e.g. to 50"
        )
    if model.get("start") == "data" and model.get("likelihood_variance_trainable") is False:
        raise UserError(
            "model.likelihood_variance_trainable=false keeps model.likelihood_variance, which "
            "model.start=data would replace; set model.start=config"
        )


def _layer_order(layers: list[str], model: dict) -> None:
    shown = f"model.layers={show_value(layers)} is not allowed;"
    if layers[-1] != "gp":
        raise UserError(f"{shown} the last layer must be gp")
    if "linear" in layers[1:]:
        raise UserError(f"{shown} linear projects the inputs and can only come first")
    for kind in ("warp", "align"):
        if kind in layers[1:] or (kind == layers[0] and "lv" in layers):
            raise UserError(f"{shown} {kind} warps the inputs: it can only come first, before gp layers")
    width = model.get("projection_dim")
    if (layers[0] == "linear") != (width is not None):
        raise UserError(
            f"model.layers={show_value(layers)} and model.projection_dim={show_value(width)}"
            " do not fit; a projection needs both: model.layers=[linear,lv,gp] model.projection_dim=10"
        )
    if model.get("use_inputs") is False and layers[0] != "lv":
        raise UserError(f"{shown} without inputs (model.use_inputs=false) the first layer must be lv")


def _not_for_gps(cfg: dict) -> None:
    """Refuse settings that built-in models other than GPs trained by an inference would ignore."""
    model, name = cfg["model"], cfg["model"]["name"]
    if "layers" in model or not model["_target_"].startswith(OURS):
        return
    if model.get("priors") and model["_target_"] != SAMPLED:
        raise UserError(
            f"model.priors are not for model={name}; use model=gpmc, or model=sgp with inference=sgpmc or a "
            "variational one, or leave them out"
        )
    if model["_target_"] == FIDELITIES:
        return
    given = {
        "inference.hyperparameters=fixed": cfg["inference"]["hyperparameters"] == "fixed",
        "engine.trace_test=true": cfg["engine"]["trace_test"],
    }
    for setting in (setting for setting, is_set in given.items() if is_set):
        if model.get("own_training"):
            raise UserError(f"{setting} is not for model={name}, which trains in its own way; leave it out")
        raise UserError(f"{setting} is for GP models; model={name} is none, leave it out")
    if (likelihood := cfg["likelihood"]["name"]) != "auto" and not model.get("own_training"):
        raise UserError(
            f"likelihood={likelihood} is for GP models; model={name} has its own, leave likelihood=auto"
        )


def _by_model(cfg: dict) -> None:
    """Refuse what a built-in model cannot do."""
    if refusal := {**OWN, **NETWORKS}.get(cfg["model"]["_target_"]):
        refusal(cfg)


def _gaussian_noise(cfg: dict) -> None:
    if (name := cfg["likelihood"]["name"]) not in ("auto", "gaussian"):
        raise UserError(
            f"likelihood={name} is not possible with model={cfg['model']['name']}, whose noise is Gaussian;"
            " use model=vgp or sgp, or leave likelihood=auto"
        )


def _probit(cfg: dict) -> None:
    if (name := cfg["likelihood"]["name"]) not in ("auto", "bernoulli"):
        raise UserError(
            f"likelihood={name} is not possible with model={cfg['model']['name']}, whose link is the probit; "
            "use likelihood=bernoulli, or model=vgp or sgp"
        )


def _levels(cfg: dict) -> None:
    if (name := cfg["likelihood"]["name"]) not in ("auto", "gaussian"):
        raise UserError(
            f"likelihood={name} is not possible with model={cfg['model']['name']}, which is for one target "
            "with Gaussian noise; leave likelihood=auto"
        )


def _in_gpflow(cfg: dict) -> None:
    if (name := cfg["likelihood"]["name"]) != "auto" and not likelihood_class(cfg["likelihood"]).in_gpflow():
        kinds = {name: plugins.load(entry) for name, entry in plugins.built_in("likelihood").items()}
        possible = ", ".join(name for name, kind in kinds.items() if kind.in_gpflow())
        raise UserError(
            f"likelihood {name} has no exact counterpart in GPflow, which trains this model; use one of "
            f"{possible}, or model=sgp"
        )


def _sampled(cfg: dict) -> None:
    _in_gpflow(cfg)
    burn_in_and_thinning(cfg)


def burn_in_and_thinning(cfg: dict) -> tuple[int, int]:
    """Return the steps of GPMC that are discarded, and the steps for each sample that is kept."""
    if (steps := cfg["budget"]["steps"]) is None:
        raise UserError(
            "model=gpmc counts its burn-in in steps; set budget.steps, alone or with budget.seconds"
        )
    burn_in, kept = burn_in_of(cfg), option(cfg, "kept", COUNT)
    if (left := steps - burn_in) < kept:
        raise UserError(
            f"budget.steps={steps} leaves {left} samples behind model.burn_in={cfg['model']['burn_in']:g}, "
            f"fewer than model.kept={kept}; raise budget.steps or lower model.kept"
        )
    return burn_in, left // kept


def burn_in_of(cfg: dict) -> int:
    """Return the steps of GPMC that are discarded."""
    return int(option(cfg, "burn_in", Field(float, above=0, below=1)) * cfg["budget"]["steps"])


def _units_to_drop(cfg: dict) -> None:
    if not hidden_sizes(cfg):
        raise UserError("model.hidden=[] leaves nothing to drop; give widths of hidden layers, e.g. [50,50]")


def _one_sample(cfg: dict) -> None:
    if (samples := cfg["inference"]["samples"]) != 1:
        raise UserError(
            f"inference.samples={samples} is not possible with model={cfg['model']['name']}: its likelihood "
            "is exact; leave inference.samples at 1"
        )


def _dropout_of_hidden(cfg: dict) -> None:
    later = {"model": later_defaults("model") | cfg["model"]}  # an older config has none of these
    if option(later, "dropout", Field(float, low=0, below=1)) and not hidden_sizes(cfg):
        raise UserError("model.dropout needs hidden units to drop; set model.hidden, e.g. [50], or 0")


OWN: dict[str, Callable[[dict], object]] = {
    f"{MODELS}classics.gpr.GPR": _gaussian_noise,
    f"{MODELS}classics.sparse.SGPR": _gaussian_noise,
    f"{MODELS}classics.sparse.FITC": _gaussian_noise,
    f"{MODELS}classics.ep_gpc.EPGPC": _probit,
    f"{MODELS}classics.gfitc.GFITC": _probit,
    f"{MODELS}classics.vgp.VGP": _in_gpflow,
    SAMPLED: _sampled,
    FIDELITIES: _levels,
}
NETWORKS: dict[str, Callable[[dict], object]] = {
    f"{MODELS}baselines.mc_dropout.MCDropout": _units_to_drop,
    f"{MODELS}baselines.mdn.MDN": _one_sample,
    f"{MODELS}baselines.cvae.CVAE": _dropout_of_hidden,
    f"{MODELS}baselines.deep_ensemble.DeepEnsemble": hidden_sizes,
}
