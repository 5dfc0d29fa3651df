"""Configs: conf/ and overrides in, a plain checked dict out, and the keys that name its runs.

`tree` lists what conf/ offers, `composition` puts one config together with Hydra, `schema` and `checks`
refuse what cannot mean anything, `keys` hashes what determines the numbers. Names are resolved on first use,
so that `--help` and completion pay for the tree only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgpbench.config.checks import validate
    from dgpbench.config.composition import compose, deviations
    from dgpbench.config.keys import NUMERICS_VERSION, config_key, run_key
    from dgpbench.config.tree import conf_dir

_HOME = {
    "NUMERICS_VERSION": "keys",
    "compose": "composition",
    "conf_dir": "tree",
    "config_key": "keys",
    "deviations": "composition",
    "run_key": "keys",
    "validate": "checks",
}
__all__ = ["NUMERICS_VERSION", "compose", "conf_dir", "config_key", "deviations", "run_key", "validate"]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
