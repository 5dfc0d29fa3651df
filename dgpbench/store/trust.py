"""Records of others: what they claim is checked before it is stored, and no code is called that they name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from dgpbench.config.checks import normalise
from dgpbench.config.keys import config_key, run_key
from dgpbench.errors import UserError
from dgpbench.store.record import Record

OURS = re.compile(r"dgpbench\.(models|inference|gp|adapters)(\.[a-z][a-z0-9_]*)+\.[A-Z][A-Za-z0-9]*")
CODE = ("_target_", "wrapped")  # fields that name code, wherever they stand
MACHINE = ("paths", "engine", "launcher", "tracker")  # sections that say where and how, not what


def check_record(record: Record, allow: Sequence[str] = ()) -> None:
    """ValueError unless the record's config is one that a user could give, its keys are those of config and
    data, and the code that it names is ours or of a package in `allow`."""
    check_config(record.config, allow)
    check_keys(record)


def check_code(config: dict, allow: Sequence[str] = ()) -> None:
    """ValueError for code that is neither ours nor allowed."""
    for name, target in _code(config, ""):
        known = isinstance(target, str) and (
            OURS.fullmatch(target) or any(target == a or target.startswith(f"{a}.") for a in allow)
        )
        if not known:
            package = str(target).partition(".")[0][:80]
            raise ValueError(
                f"{name}={str(target)[:200]} is code of others; if you trust it, add --allow {package}"
            )


def code_packages(configs: Sequence[dict], allow: Sequence[str] = ()) -> list[str]:
    """The packages of others whose code the configs name, but for the targets in `allow`."""
    found = {str(target) for config in configs for _, target in _code(config, "")}
    return sorted({target.partition(".")[0] for target in found - set(allow) if not OURS.fullmatch(target)})


def check_config(config: dict, allow: Sequence[str] = ()) -> None:
    """ValueError for a field that is missing, misspelt, of a wrong type or out of range. Code comes first:
    a method of inference is asked for its own fields."""
    check_code(config, allow)
    whole = {**config, **_machine_sections()}
    if whole.get("device") not in ("auto", "cpu", "gpu"):  # under a time budget the very processor
        whole["device"] = "auto"
    try:
        normalise(whole)
    except UserError as error:
        raise ValueError(f"its config is none: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"its config is none ({type(error).__name__}: {error})") from None


def check_keys(record: Record) -> None:
    """ValueError unless both keys follow from config and data."""
    if record.data_hash is None:
        if record.done:
            raise ValueError("it is done without data_hash: what it was trained on cannot be known")
        return
    for name, key in (("key", run_key), ("config_key", config_key)):
        try:
            found = key(record.config, record.data_hash)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"its config gives no key ({type(error).__name__}: {error})") from None
        if found != record[name]:
            raise ValueError(f"its {name} is not that of its config and data")


def _code(node: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Names and values of the fields that name code."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in items:
        where = f"{place}.{name}" if place else str(name)
        if name in CODE and value is not None:
            yield where, value
        yield from _code(value, where)


@lru_cache(maxsize=1)
def _machine_sections() -> dict:
    """Those of this machine: where and how a record was made says nothing of what it is."""
    from dgpbench.config import compose

    return {name: section for name, section in compose().items() if name in MACHINE}
