"""Composition: overrides in, a plain checked config out. conf/ holds every default; Hydra composes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from dgpbench.config import expand, plugins, refusals
from dgpbench.config.checks import check_fields
from dgpbench.config.classes import create_method
from dgpbench.config.keys import LABELS, SETTINGS, likelihood_settings
from dgpbench.config.quick import quick
from dgpbench.config.refusals import SAMPLED, burn_in_of, unused_sections
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.config.suggest import did_you_mean, file_hint
from dgpbench.config.tree import (
    FAMILIES,
    conf_dir,
    config_folders,
    default_options,
    groups,
    member,
    options,
    plugin_folders,
    setting_of,
)
from dgpbench.errors import UserError

NAME = re.compile(r"[\w/@-]+(\.[\w@-]+)*")
METHOD = ("inference._target_", "inference.name")  # of every method
CSV = ("dataset.path", "dataset.target", "dataset.prepare")
FREE = (
    "model.layer_overrides",
    "model.options",
    "model.priors",
    "launcher.models",
)  # fields below which names may be added
FROM_DATA = ("likelihood_variance", "kernel_variance", "lengthscale")  # not read under model.start=data
KEPT = 100  # samples of each chain of model=gpmc, where the budget has room for them
STACKED = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic")  # kernels of model.per_output


def check_words(words: Sequence[object]) -> None:
    """Raise UserError unless all settings are text: functions accept them as separate arguments."""
    for word in words:
        if not isinstance(word, str):
            raise UserError(f"{word!r} is not a setting; write 'name=value', one argument for each setting")


def compose(
    overrides: Sequence[str] = (), config_dirs: Sequence[str | Path] = (), trusted: bool = True
) -> dict:
    """The config that `overrides` (Hydra syntax, e.g. "model=dgp3", "budget.steps=100") describe.

    The command line wins over an experiment, and an experiment over the groups' defaults. The name of a
    family, such as "model=dgp", means its default member. Code in `config_dirs` is used only if
    they are `trusted`: given by the user, not by a record.
    """
    check_words(overrides)
    folders = config_folders(config_dirs)
    if trusted:
        plugins.use(config_dirs)
    overrides = [_named(text, folders) for text in overrides]
    if (plain := quick(overrides, folders)) is not None:
        return _finished(plain, overrides, folders)
    return _compose(overrides, folders)


def _named(text: str, folders: Sequence[Path]) -> str:
    """Return an override with the default member in place of a family's name."""
    group, _, name = text.partition("=")
    if name not in FAMILIES.get(group, ()):
        return text
    return f"{group}={member(group, name, options(group, folders))}"


def _compose(overrides: Sequence[str], folders: Sequence[Path]) -> dict:
    choices, values = _parse(list(overrides), folders)
    try:
        cfg = _hydra(choices + [text for _, text in values], folders)
    except UserError as error:
        known = flatten(_hydra(choices, folders, resolve=False)) if values else {}
        _explain_unknown([name for name, _ in values], known, folders)
        _explain_lists(values, known)
        raise error
    return _finished(cfg, [*choices, *(f"{name}={text.partition('=')[2]}" for name, text in values)], folders)


def _finished(cfg: dict, given: Sequence[str], folders: Sequence[Path]) -> dict:
    """Check and complete a composed config; `given` are the overrides of the command line."""
    cfg["paths"]["config_dirs"] = [str(folder) for folder in folders[1 + len(plugin_folders()) :]]
    cfg["paths"]["mirror"] = cfg["paths"].get("mirror") or None
    cfg = check_fields(cfg)
    settle(cfg, [word.partition("=")[0].lstrip("+") for word in given])
    refusals.check(cfg)
    for name in ("results", "datasets"):
        cfg["paths"][name] = str(Path(cfg["paths"][name]).expanduser())
    dataset = cfg["dataset"]
    free = dataset.get("prepare") == "auto" and dataset["task"] == "regression"
    free = free and not any(word.startswith("dataset.task=") for word in given)
    if dataset["task"] == "auto" or free:
        from dgpbench.data.labels import infer_task

        dataset["task"] = infer_task(dataset, cfg["paths"])
    if method := cfg["model"].get("trained_by") or ("exact" if cfg["model"].get("closed_form") else None):
        cfg["inference"]["name"] = str(method)  # a label: what the model does whatever the group is called
    refusals.check_given(cfg["model"], given)
    return cfg


def deviations(cfg: dict) -> list[str]:
    """Differences from the experiment the config names: ["budget.steps=10 (experiment: 20000)"]."""
    if not cfg.get("experiment"):
        return []
    reference = compose([f"experiment={cfg['experiment']}"], cfg["paths"].get("config_dirs", ()))
    ours, theirs = (
        flatten({k: c[k] for k in (*SETTINGS, "precision")} | {"likelihood": likelihood_settings(c)})
        for c in (cfg, reference)
    )
    lines = []
    for name in sorted(set(ours) | set(theirs)):
        if name not in LABELS and ours.get(name) != theirs.get(name):
            lines.append(f"{name}={show_value(ours.get(name))} (experiment: {show_value(theirs.get(name))})")
    return lines


def _parse(overrides: list[str], folders: Sequence[Path]) -> tuple[list[str], list[tuple[str, str]]]:
    """Group choices, and (name, text) of value overrides; refuses what could not mean anything here."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser, known = OverridesParser.create(), groups(folders)
    choices, values = [], []
    for text in map(plain_override, overrides):
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            raise UserError(f"cannot read '{text}'{_unreadable(text, str(error))}") from None
        name = override.key_or_group
        if override.is_sweep_override():
            raise UserError(f"'{text}' has several values; `dgpbench sweep {text}` runs each of them")
        if name == "experiment" and override.value() is None:
            continue  # the default, which Hydra does not take as a choice
        if name in known:
            _check_option(name, override.value(), folders)
            choices.append(text)
        else:
            values.append((name, "++" + text if name.startswith(FREE) else text))
    return choices, values


def _unreadable(text: str, reason: str) -> str:
    """Why Hydra's grammar has no such override, in our words where the case is a common one."""
    name, _, value = text.partition("=")
    if not NAME.fullmatch(name):
        return "; names are written like model or model.kernel, with no blank before ="
    if parts := re.fullmatch(r"([\w.]*)[, ]+([\w.]+=.*)", value):
        return f"; separate settings by blanks, without commas or quotes: {name}={parts[1]} {parts[2]}"
    if value.startswith("="):
        return f"; write one equals sign: {name}{value}"
    if value.startswith(",") or value.endswith(",") or ",," in value:
        return f"; a list of values has no empty place: {name}=a,b"
    if function := re.search(r"Unknown function '(\w+)'", reason):
        return (
            f"; {function[1]}(...) is not known here: lists are a,b,c or range(0,10), "
            "and log(a,b), uniform(a,b) and int(a,b) are for dgpbench tune"
        )
    if value.startswith("range("):
        return "; range(a,b) takes whole numbers"
    return "; quote a value that holds special characters: 'name=\"value\"'"


def plain_override(text: str) -> str:
    """An override without Hydra's leading plus signs; UserError for what has no meaning here."""
    name, equals, value = text.partition("=")
    if name.startswith("~"):
        raise UserError(f"cannot read '{text}'; fields are set with name=value and cannot be deleted")
    if not equals:
        raise UserError(f"cannot read '{text}'; overrides are written name=value{_meant(text)}")
    name = name.lstrip("+")
    if name == "hydra/launcher":
        raise UserError(f"'{text}': use dgpbench's own launchers, `dgpbench sweep launcher=slurm` or ray")
    if name.startswith("hydra"):
        raise UserError(f"'{text}' is a setting of Hydra's own runner, which is not used; see `run --help`")
    return f"{name}={value}"


def _meant(word: str) -> str:
    """Return what a word without an equals sign may mean: an option of a group, or a file."""
    if re.fullmatch(r"[\w.]+:\S+", word):
        return f"; did you mean '{word.replace(':', '=', 1)}'?"
    if word in groups():
        return f" with no blanks around =, e.g. {word}={default_options().get(word, 'NAME')}"
    if hint := file_hint(word):
        return hint
    if meant := setting_of(word):
        return f"; did you mean '{meant}'?"
    return ", with no blanks around =, e.g. model=dgp3"


def _check_option(group: str, value: Any, folders: Sequence[Path]) -> None:
    names = options(group, folders)
    if str(value) not in names:
        if value == "":
            raise UserError(f"unknown {group} ''; write {group}=NAME with no blanks around =")
        if group == "dataset" and (hint := file_hint(str(value))):
            raise UserError(f"unknown dataset '{show_value(value)}'{hint}")
        if group == "budget" and isinstance(value, int):
            raise UserError(f"unknown budget '{value}'; for a number of steps write budget.steps={value}")
        if isinstance(value, list) or value == "all":
            several = ",".join(map(str, value)) if isinstance(value, list) else "glob(*)"
            raise UserError(
                f"unknown {group} '{show_value(value)}'; for several write `dgpbench sweep {group}={several}`"
            )
        hint = did_you_mean(str(value), names)
        command = "data list" if group == "dataset" else f"run --help {group}"
        more = "" if "allowed:" in hint else f" (`dgpbench {command}` lists all)"
        raise UserError(f"unknown {group} '{show_value(value)}'{hint}{more}")


def _hydra(overrides: list[str], folders: Sequence[Path], resolve: bool = True) -> dict:
    import yaml
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    from dgpbench.config.hydra_source import search_path

    escaped = (path.replace("\\", "\\\\").replace('"', '\\"') for path in search_path(list(folders)))
    quoted = ",".join(f'"{path}"' for path in escaped)
    overrides = [*overrides, f"hydra.searchpath=[{quoted}]"]
    try:
        with initialize_config_dir(str(folders[0]), version_base="1.3"):
            cfg = hydra_compose("config", overrides=overrides)
        return cast(dict, OmegaConf.to_container(cfg, resolve=resolve, throw_on_missing=resolve))
    except MissingMandatoryValue as error:
        raise UserError(f"{error.full_key} needs a value; add {error.full_key}=...") from None
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise UserError("cannot compose the config: " + " ".join(str(error).split())) from None


def _explain_lists(values: list[tuple[str, str]], known: dict[str, Any]) -> None:
    """Raise if a list is given to what has names, as in model.priors=[gamma,1,1]."""
    for name, text in values:
        named = name in FREE or any(other.startswith(f"{name}.") for other in known)
        if named and (value := text.partition("=")[2]).startswith("["):
            raise UserError(
                f"{name}={value} is not allowed; {name} must be a mapping: name what {value} is for"
            )


def _explain_unknown(names: list[str], known: dict[str, Any], folders: Sequence[Path]) -> None:
    """Raise with the nearest name if one of `names` is neither a field nor a section."""
    sections = {name.rsplit(".", i)[0] for name in known for i in range(1, name.count(".") + 1)}
    for name in names:
        if name in known or name in sections or name.startswith(FREE):
            continue
        if name.startswith("inference.") and (owners := _methods_with(name, folders)):
            own = [f for f in known if f.startswith("inference.") and f not in METHOD]
            raise UserError(
                f"'{name}' is a field of inference={', '.join(owners)}, and inference="
                f"{known['inference.name']} has none such; its fields are {', '.join(own)}"
            )
        hint = did_you_mean(name, [*known, *([] if "." in name else ["dataset.path", *groups(folders)])])
        section = name.split(".")[0]
        if name in CSV:
            hint = f" of dataset={known['dataset.name']}; it is a field of your own file, with dataset=csv"
        if not hint and f"{section}.name" in known:
            hint = f" of {section}={known[f'{section}.name']}"
        if "did you mean" not in hint and name not in CSV:
            hint += "; `dgpbench run --help settings` lists all"
        raise UserError(f"unknown key '{name}'{hint}")


def _methods_with(name: str, folders: Sequence[Path]) -> list[str]:
    """Options of the group inference whose config has a field of that name."""
    return [
        option for option in options("inference", folders) if name in fields_of("inference", option, folders)
    ]


def fields_of(group: str, option: str, folders: Sequence[Path]) -> set[str]:
    """Return the dotted fields of an option, whether or not it fits the defaults of other groups."""
    _check_option(group, option, folders)
    words = [f"{group}={option}"]
    cfg = quick(words, folders) or _hydra(words, folders, resolve=False)
    return {f"{group}.{name}" for name in flatten(cfg[group])}


# ---- settings that are `auto` or null ------------------------------------------------------------------
#
# Each method has the precision that it needs, and samplers divide the budget into their phases. Only the
# default inference starts from the data, has inner layers with a kernel for each output, and grows its budget
# with the rows. Initial values, layers and steps that the user sets are kept. A named inference does as its
# paper does, so that its keys do not change.


def settle(cfg: dict, given: Sequence[str]) -> None:
    """Fill in the settings of a config with valid fields that are left to the method or the budget.

    `given` are the fields that the command line sets: steps that it asks for are the steps that are made.
    """
    model, budget = cfg["model"], cfg["budget"]
    elsewhere = bool(unused_sections(model))
    standard = not elsewhere and cfg["inference"]["name"] == default_options()["inference"]
    if "layers" in model:
        own = "all" if standard and _can_be_separate(model, cfg["inference"]) else "none"
        for part in (model, *_overrides(model)):
            if part.get("per_output") == "auto":
                part["per_output"] = own
        if model.get("start") == "auto":
            model["start"] = "data" if standard and not _asked_for(model, given) else "config"
        elif model.get("start") == "data" and (asked := [n for n in FROM_DATA if f"model.{n}" in given]):
            raise UserError(
                f"model.{asked[0]} is not read under model.start=data, which takes it from the training "
                "rows; leave one of the two out, or set model.start=config"
            )
    if budget.get("growth") == "auto":
        grows = standard and ("budget.steps" not in given or "budget.growth" in given)
        budget["growth"] = "sqrt" if grows else "none"
        if not grows and "budget.max_steps" not in given:
            budget["max_steps"] = None
    if model["_target_"] == SAMPLED and model.get("kept", KEPT) is None and budget["steps"]:
        model["kept"] = min(KEPT, budget["steps"] - burn_in_of(cfg))
    method = None if elsewhere else create_method(cfg)
    if method:
        cfg["inference"] |= method.scaled(budget["steps"])
    if cfg["precision"] == "auto":
        cfg["precision"] = method.precision(model) if method and "layers" in model else "mixed"


def _asked_for(model: Mapping[str, Any], given: Sequence[str]) -> bool:
    """Whether the command line, the model's own file or a single layer sets one of the first values."""
    if model.get("likelihood_variance_trainable") is False:  # the noise stays where it starts
        return True
    usual = expand.read(conf_dir() / "model" / "_gp.yaml")
    return any(
        (f"model.{name}" in given and "model.start" not in given)
        or model.get(name) != usual[name]
        or any(name in part for part in _overrides(model))
        for name in FROM_DATA
    )


def _can_be_separate(model: Mapping[str, Any], inference: Mapping[str, Any]) -> bool:
    """Whether a model has inner GP layers, no others, and kernels that take an axis of outputs."""
    layers = model["layers"]
    kernels = [model.get("kernel"), *(part.get("kernel", "rbf") for part in _overrides(model))]
    return (
        len(layers) > 1
        and set(layers) == {"gp"}
        and all(kernel in STACKED for kernel in kernels)
        and not any(model.get(name) for name in ("inner_gps", "compat"))
        and model.get("whiten", True) is True
        and inference.get("optimiser") != "ngd_all"
    )


def _overrides(model: Mapping[str, Any]) -> list[dict]:
    """Return the settings of single layers."""
    return list(model.get("layer_overrides", {}).values())
