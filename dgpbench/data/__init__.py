"""Datasets: catalogue, sources, readers, splits, scaling and synthetic sets with known densities.

Names are resolved on first use, so that `dgpbench data list` pays for the catalogue only.
"""

from importlib import import_module

_HOME = {
    "Entry": "catalogue",
    "entry_from_config": "catalogue",
    "Split": "split",
    "load_split": "loader",
    "load_data": "cache",
    "list_rows": "inventory",
    "show_text": "inventory",
    "fetch": "inventory",
    "verify": "inventory",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOME[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value
