"""The launcher group of a config, checked, with what single models need laid over it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from dgpbench.config.keys import complete, config_key
from dgpbench.config.schema import Field, check_field
from dgpbench.config.suggest import did_you_mean
from dgpbench.data.atomic_files import write_json
from dgpbench.errors import UserError
from dgpbench.store.layout import labels_of, unit_folder
from dgpbench.store.record import GROUPS, is_hash, is_name
from dgpbench.store.untrusted import check_depth, parse_json, read_regular

COUNT, COUNT_OR_NULL = Field(int, low=1), Field(int, null=True, low=1)
POSITIVE = Field(float, above=0)
TEXT_OR_NULL = Field(str, null=True)
BASE = {
    "name": Field(str),
    "timeout": Field(float, null=True, above=0),
    "grace": POSITIVE,
    "memory": Field(float, null=True, above=0),
    "cpus": COUNT_OR_NULL,
    "retries": Field(int, low=0),
}
FIELDS: dict[str, dict[str, Field]] = {
    "local": BASE | {"workers": COUNT_OR_NULL},
    "slurm": BASE
    | {
        "cpus": COUNT,
        "gpus": Field(int, low=0),
        "partition": TEXT_OR_NULL,
        "account": TEXT_OR_NULL,
        "options": Field(list),
        "setup": TEXT_OR_NULL,
        "bundle": COUNT,
        "parallel": COUNT_OR_NULL,
        "max_array": COUNT_OR_NULL,
        "requeue": Field(bool),
        "requeues": Field(int, low=0),
        "poll": POSITIVE,
        "settle": Field(float, low=0),
    },
    "ray": BASE
    | {
        "cpus": COUNT,
        "gpus": Field(float, low=0),
        "address": TEXT_OR_NULL,
        "bundle": COUNT,
        "poll": POSITIVE,
    },
}
OF_A_MODEL = (
    "timeout",
    "grace",
    "memory",
    "cpus",
    "gpus",
    "partition",
    "account",
    "options",
    "bundle",
    "retries",
)


def settings_of(cfg: dict) -> SimpleNamespace:
    """The launcher's fields for the model of `cfg`; UserError names a field that is wrong."""
    given = cfg["launcher"]
    name = given["name"]
    if name not in FIELDS:
        raise UserError(f"unknown launcher '{name}'{did_you_mean(name, FIELDS)}")
    fields = FIELDS[name]
    special = (given.get("models") or {}).get(cfg["model"]["name"]) or {}
    for leaf in special:
        if leaf not in OF_A_MODEL or leaf not in fields:
            allowed = [f for f in OF_A_MODEL if f in fields]
            place = f"launcher.models.{cfg['model']['name']}.{leaf}"
            raise UserError(f"unknown key '{place}'{did_you_mean(leaf, allowed)}")
    values = {k: v for k, v in given.items() if k != "models"} | special
    for leaf in (*values, *fields):
        if leaf not in fields or leaf not in values:
            raise UserError(f"launcher.{leaf} does not fit launcher={name}{did_you_mean(leaf, fields)}")
    return SimpleNamespace(**{k: check_field(f"launcher.{k}", v, fields[k]) for k, v in values.items()})


FORMAT = 1
SWEEPS = ".sweeps"  # in the results folder; hidden, so that a scan of the records does not enter it
LATEST = "latest"


class Planned(NamedTuple):
    """One unit. Under a time budget `key` names the unit in the plan; its record's has the machine in it."""

    config: int
    split: int
    seed: int
    key: str


@dataclass(frozen=True)
class Plan:
    """Plan of a sweep: its units and configs. Which of them are done, the records say."""

    cwd: str
    command: list[str]
    configs: list[dict]
    hashes: list[str]  # of the data, by config
    units: list[Planned]

    def config(self, index: int) -> dict:
        """The whole config of one unit."""
        unit = self.units[index]
        return complete(self.configs[unit.config]) | {"split": unit.split, "seed": unit.seed}

    def data_hash(self, index: int) -> str:
        return self.hashes[self.units[index].config]

    def config_key(self, index: int) -> str:
        return config_key(self.configs[self.units[index].config], self.data_hash(index))

    def folder(self, index: int) -> Path:
        return unit_folder(self.results, labels_of(self.config(index)), self.units[index].key)

    def label(self, index: int) -> str:
        """A unit in words: 'dgp2 energy split 3', with the seed if it is not the only one."""
        unit, cfg = self.units[index], self.configs[self.units[index].config]
        seed = f" seed {unit.seed}" if unit.seed or self._several_seeds else ""
        return f"{cfg['model']['name']} {cfg['dataset']['name']} split {unit.split}{seed}"

    @cached_property
    def _several_seeds(self) -> bool:
        return len({unit.seed for unit in self.units}) > 1

    @cached_property
    def settings(self) -> list:
        """The launcher's settings of each config."""
        return [settings_of(cfg) for cfg in self.configs]

    @property
    def launcher(self):
        """The settings that hold for the whole sweep."""
        return self.settings[0]

    @property
    def results(self) -> Path:
        return Path(self.configs[0]["paths"]["results"])

    @cached_property
    def name(self) -> str:
        """Name by units, settings and folder: a sweep given again has the name it had."""
        text = json.dumps([self.cwd, self.configs, self.hashes, self.units], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    @property
    def home(self) -> Path:
        return self.results / SWEEPS / self.name

    def save(self) -> Path:
        """Write plan.json into the sweep's own folder and make this sweep the latest."""
        self.home.mkdir(parents=True, exist_ok=True)
        document = {
            "format": FORMAT,
            "cwd": self.cwd,
            "command": self.command,
            "configs": self.configs,
            "hashes": self.hashes,
            "units": self.units,
        }
        write_json(self.home / "plan.json", document)
        write_json(self.home.parent / LATEST, {"name": self.name})
        return self.home / "plan.json"


def load_plan(path: str | Path) -> Plan:
    """The plan in a file; UserError if it is none."""
    try:
        document = parse_json(read_regular(path))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}, this dgpbench reads {FORMAT}")
        units = [Planned(*unit) for unit in document["units"]]
        fields = {name: document[name] for name in ("cwd", "command", "configs", "hashes")}
        _check(**fields, units=units)
    except OSError as error:
        raise UserError(f"cannot read plan {path} ({error.strerror}); `dgpbench sweep` writes one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no plan ({error}); `dgpbench sweep` writes one") from None
    return Plan(**fields, units=units)


def _check(cwd: str, command: list, configs: list, hashes: list, units: list[Planned]) -> None:
    """ValueError for what no plan of ours holds."""
    check_depth(configs)
    if not isinstance(cwd, str) or not all(isinstance(word, str) for word in command):
        raise ValueError("cwd and command are no texts")
    if not isinstance(configs, list) or not configs or not units or len(hashes) != len(configs):
        raise ValueError("it has no units")
    if not all(is_hash(text) for text in hashes):
        raise ValueError("a data hash is none")
    for cfg in configs:
        sections = (*GROUPS, "budget", "launcher", "paths")
        parts = [*(cfg[name] for name in sections), cfg.get("tracker", {})]
        if not all(isinstance(part, dict) for part in parts) or type(cfg["threads"]) is not int:
            raise ValueError("a config is incomplete")
        if not all(is_name(cfg[name]["name"]) for name in GROUPS) or not isinstance(cfg["device"], str):
            raise ValueError("a config has no names")
        if not isinstance(cfg["paths"]["results"], str) or not {"steps", "seconds"} <= set(cfg["budget"]):
            raise ValueError("a config is incomplete")
    for unit in units:
        numbers = (unit.config, unit.split, unit.seed)
        if not all(type(n) is int and n >= 0 for n in numbers) or unit.config >= len(configs):
            raise ValueError("a unit is of no config")
        if not is_hash(unit.key):
            raise ValueError("a unit has no key")


def plans(results: str | Path) -> dict[str, Path]:
    """The sweeps of a results folder by name, the latest first."""
    folder = Path(results) / SWEEPS
    found = {path.parent.name: path for path in sorted(folder.glob("*/plan.json"))}
    try:
        latest = parse_json(read_regular(folder / LATEST))["name"]
    except (OSError, ValueError, KeyError, TypeError):
        latest = None
    return {name: found[name] for name in sorted(found, key=lambda name: name != latest)}
