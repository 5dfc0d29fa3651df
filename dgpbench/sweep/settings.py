"""The launcher group of a config, checked, with what single models need laid over it."""

from __future__ import annotations

from types import SimpleNamespace

from dgpbench.config.schema import Field, check_field
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError

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
