"""Plans from overrides in Hydra's sweep syntax: one composition per combination, then all splits."""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from dgpbench.config import compose
from dgpbench.config.composition import fields_of, plain_override
from dgpbench.config.derived import num_splits
from dgpbench.config.keys import run_key
from dgpbench.config.refusals import UNUSED, check_split, section_of, unused_sections
from dgpbench.config.schema import check_field
from dgpbench.config.tree import config_folders, groups, member, options
from dgpbench.errors import UserError
from dgpbench.machine import usable_cores
from dgpbench.sweep.plan import Plan, Planned, settings_of

NOT_SWEPT = ("launcher", "tracker", "paths")
MOST = 1_000_000  # units of a sweep


def make_plan(
    overrides: Sequence[str],
    config_dirs: Sequence[str] = (),
    *,
    fetch: bool,
    note: Note,
    hashes: Hashes | None = None,
) -> Plan:
    """The units that `overrides` describe. With `fetch`, data that are not here yet are fetched once, now.

    `hashes` are those of several plans in common.
    """
    axes, splits, seeds = axes_of(overrides, config_folders(config_dirs))
    make = composer(axes, config_dirs)
    configs = [
        make([f"{name}={value}" for name, value in zip(axes, values, strict=True)])
        for values in product(*axes.values())
    ]
    jobs = [(cfg, splits_of(splits, cfg), seeds or [cfg["seed"]]) for cfg in configs]
    return plan_units(overrides, jobs, fetch=fetch, note=note, hashes=hashes)


def plan_units(
    command: Sequence[str],
    jobs: Sequence[tuple[dict, Sequence[int], Sequence[int]]],
    *,
    fetch: bool = True,
    note: Note = lambda text: None,
    hashes: Hashes | None = None,
) -> Plan:
    """The plan of `jobs`, each a config with its splits and seeds. `command` is for people to read."""
    planned: dict[str, Planned] = {}
    hashes = hashes or Hashes(fetch, note)
    configs = [dict(cfg) for cfg, _, _ in jobs]  # their threads are set below; what was composed stays
    data = [hashes.of(cfg) for cfg in configs]
    repeated = 0
    for number, ((cfg, splits, seeds), data_hash) in enumerate(zip(jobs, data, strict=True)):
        for split in splits:
            for seed in seeds:
                key = run_key(cfg | {"split": split, "seed": seed}, data_hash)
                repeated += key in planned
                planned.setdefault(key, Planned(number, split, seed, key))
    if repeated:
        note(f"{repeated} units would repeat others (same numbers); each runs once")
    units = list(planned.values())
    _give_threads(configs, len(units))
    return Plan(os.getcwd(), list(command), configs, data, units)


def axes_of(overrides: Sequence[str], folders: Sequence[Path]) -> tuple[dict, list[int] | None, list[int]]:
    """Values by override name, and those of split (None: all of the protocol) and seed, which need no
    composition."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser, known = OverridesParser.create(), groups(folders)
    axes: dict[str, list[str]] = {}
    for text in map(plain_override, overrides):
        try:
            override = parser.parse_override(text)
        except HydraException:
            compose([text])  # explains what is wrong with it
            raise
        name = override.key_or_group
        if name in axes:
            raise UserError(f"'{name}' is given twice; list its values: {name}=a,b")
        axes[name] = values_of(override, text, tuple(options(name, folders)) if name in known else ())
        if len(axes[name]) > 1 and name.split(".")[0] in NOT_SWEPT:
            raise UserError(
                f"'{text}' cannot be swept; one sweep has one launcher, tracker and results folder"
            )
    splits = axes.pop("split", ["all"])
    if "all" in splits and len(splits) > 1:
        raise UserError("split=all stands alone; it means every split of the protocol")
    numbers = None if splits == ["all"] else whole_numbers("split", splits)
    seeds = whole_numbers("seed", axes.pop("seed", []))
    _check_size(math.prod(map(len, axes.values())) * len(splits) * max(1, len(seeds)))
    return axes, numbers, seeds


def _check_size(units: int) -> None:
    if units > MOST:
        raise UserError(
            f"{units:,} combinations are too many for one sweep; at most {MOST:,}: shorten its lists"
        )


def values_of(override, text: str, names: Sequence[str]) -> list[str]:
    from hydra.core.override_parser.types import Glob, Transformer

    if override.is_sweep_override() and isinstance(override.value(), Glob):
        found = override.value().filter(list(names))
        if not found:
            raise UserError(f"'{text}' matches nothing; glob() is for groups such as model and dataset")
        return found
    if override.is_sweep_override() and not (override.is_discrete_sweep()):
        raise UserError(f"'{text}' has no list of values; use name=a,b,c or name=range(0,10)")
    if override.is_range_sweep():
        _check_size(length := _length(override.value()))
        if not length:
            raise UserError(
                f"'{text}' holds no value; range(a,b) goes from a up to b - 1, so a must be below b"
            )
    if override.is_sweep_override():
        found = [str(value) for value in override.sweep_iterator(transformer=Transformer.encode)]
    else:
        found = [text.partition("=")[2]]
    return list(dict.fromkeys(member(override.key_or_group, value, names) for value in found))


def _length(values) -> int:
    """How many values a range has, without listing them."""
    if not values.step:
        return 0
    return max(0, math.ceil((values.stop - values.start) / values.step))


def whole_numbers(name: str, values: Sequence[str]) -> list[int]:
    from dgpbench.config.schema import TOP

    numbers = []
    for value in values:
        if not value.strip().lstrip("-").isdecimal():
            extra = ", or all" if name == "split" else ""
            span = re.fullmatch(r"(\d+)(?:-|\.\.|:)(\d+)", value)
            extra += f"; for several write {name}=range({span[1]},{int(span[2]) + 1})" if span else ""
            raise UserError(f"{name}={value} is not allowed; {name} must be a whole number{extra}")
        numbers.append(check_field(name, int(value), TOP[name]))
    return numbers


def splits_of(numbers: list[int] | None, cfg: dict) -> Sequence[int]:
    if numbers is None:
        return range(num_splits(cfg["dataset"], cfg["protocol"]))
    for number in numbers:
        check_split(number, cfg["dataset"], cfg["protocol"])
    return numbers


def _give_threads(configs: list[dict], units: int) -> None:
    """Threads of each unit, fixed by the plan and not by what is left of it: numbers depend on them."""
    for cfg in configs:
        settings = settings_of(cfg)
        wanted = cfg["threads"] or settings.cpus
        if wanted is None:
            workers = min(settings.workers or usable_cores(), usable_cores(), max(units, 1))
            wanted = max(1, usable_cores() // workers)
        cfg["threads"] = wanted


REFERS = re.compile(r"\$\{(?!oc\.env:)[^}]*dataset")
OWN = re.compile(r"\$\{|^defaults:|^# @package", re.M)


def composer(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> Callable[[list[str]], dict]:
    """A function from overrides to their config, that of `compose` for those that fit."""
    fit, make = fitting(axes, config_dirs), _maker(axes, config_dirs)
    return lambda overrides: make(fit(overrides))


def fitting(
    axes: dict[str, list[str]], config_dirs: Sequence[str | Path]
) -> Callable[[list[str]], list[str]]:
    """A function that leaves out fields of another option in the list which the chosen one has not."""
    foreign: dict[str, set[str]] = {}  # by option, as it is written
    for group in ("model", "inference"):
        fields = [name for name in axes if name.startswith(f"{group}.")]
        if not fields or len(axes.get(group, ())) < 2:
            continue
        folders = config_folders(config_dirs)
        known = {value: fields_of(group, value, folders) for value in axes[group]}
        of_some = {name for name in fields if any(name in own for own in known.values())}
        foreign |= {f"{group}={value}": of_some - own for value, own in known.items()}
    for text, names in _idle(axes, config_dirs).items():
        foreign[text] = foreign.get(text, set()) | names

    def fit(overrides: list[str]) -> list[str]:
        dropped = {name for text in overrides for name in foreign.get(text, ())}
        return [text for text in overrides if text.partition("=")[0] not in dropped]

    return fit


def _idle(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> dict[str, set[str]]:
    """Names of ways of training by model (or experiment) that does not heed them, where another does."""
    group = "model" if "model" in axes else "experiment"
    names = [name for name in axes if section_of(name) in UNUSED]
    if not names or len(axes.get(group, ())) < 2:
        return {}
    idle = {
        value: unused_sections(compose([f"{group}={value}"], config_dirs)["model"]) for value in axes[group]
    }
    return {
        f"{group}={value}": {name for name in names if section_of(name) in sections}
        for value, sections in idle.items()
        if not all(idle.values())
    }


def _maker(axes: dict[str, list[str]], config_dirs: Sequence[str | Path]) -> Callable[[list[str]], dict]:
    if len(axes.get("dataset", ())) < 2 or not _separable(axes, config_folders(config_dirs)):
        return lambda overrides: compose(overrides, config_dirs)
    sections: dict[str, dict] = {}
    others: dict[tuple[str, ...], dict] = {}

    def make(overrides: list[str]) -> dict:
        (chosen,) = [text for text in overrides if text.startswith("dataset=")]
        rest = tuple(text for text in overrides if text != chosen)
        if rest not in others:
            others[rest] = compose(overrides, config_dirs)
            sections.setdefault(chosen, others[rest]["dataset"])
        if chosen not in sections:
            sections[chosen] = compose(overrides, config_dirs)["dataset"]
        return copy.deepcopy(others[rest]) | {"dataset": copy.deepcopy(sections[chosen])}

    return make


def _separable(axes: dict[str, list[str]], folders: Sequence[Path]) -> bool:
    if any(name.startswith("dataset.") for name in axes):
        return False
    if any("${" in value for values in axes.values() for value in values):
        return False
    files = options("dataset", folders)
    if any(OWN.search(files[name].read_text(encoding="utf-8")) for name in axes["dataset"] if name in files):
        return False
    trees = (path for folder in folders for path in folder.rglob("*.yaml"))
    return not any(REFERS.search(path.read_text(encoding="utf-8")) for path in trees)


UNKNOWN_HASH = "0" * 64
Note = Callable[[str], None]


class Hashes:
    """Hashes of the data of configs, read from the cache, or of fetched files.

    With `skip`, data that are not available are remembered with the reason, and their runs keep the hash of
    the catalogue, if it has one: the rest of a long queue continues.
    """

    def __init__(self, fetch: bool, note: Note, skip: bool = False):
        self.fetch, self.note, self.skip = fetch, note, skip
        self._found: dict[str, tuple[str, str | None]] = {}
        self._said: set[str] = set()

    def of(self, cfg: dict) -> str:
        """The hash of a config's data."""
        return self._look(cfg)[0]

    def lacking(self, cfg: dict) -> str | None:
        """The reason why a config's data is not available, or None."""
        return self._look(cfg)[1]

    def _look(self, cfg: dict) -> tuple[str, str | None]:
        from dgpbench.data.cache import key_of

        key = key_of([cfg["dataset"], cfg["protocol"]["split_rule"], cfg["protocol"]["row_number"]])
        if key not in self._found:
            self._found[key] = self._search(cfg)
        return self._found[key]

    def _search(self, cfg: dict) -> tuple[str, str | None]:
        from dgpbench.data.cache import check_cache, load_data, load_recipe
        from dgpbench.data.catalogue import entry_from_config
        from dgpbench.data.loader import recipe_for

        expected = None
        try:
            entry = entry_from_config(cfg["dataset"])
            if entry.on_demand:
                return load_data(entry, cfg["paths"]).data_hash, None
            recipe = recipe_for(entry, cfg["paths"], cfg["protocol"])
            expected = recipe.expect.get("data_sha256")
            meta, _ = check_cache(recipe)
            if meta is not None:
                return meta["data_hash"], None
            if not self.fetch and entry.kind in ("file", "images"):
                if not expected:
                    self._say(f"{entry.name} is not fetched yet: whether its units are done cannot be known")
                return expected or UNKNOWN_HASH, None
            return load_recipe(recipe, entry.name, self.note).data_hash, None
        except UserError as error:
            if self.skip:
                return expected or UNKNOWN_HASH, str(error)
            if not expected:
                raise
            self._say(f"{entry.name}: {error}; its units will be recorded as failed unless the data turn up")
            return expected, None

    def _say(self, text: str) -> None:
        """Note a text once, also where several configs take different rows of one dataset."""
        if text not in self._said:
            self._said.add(text)
            self.note(text)
