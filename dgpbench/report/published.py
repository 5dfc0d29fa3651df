"""Published numbers: published.csv, one line per printed cell with its source and how sure its reading is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).resolve().parent
FILE = FOLDER / "published.csv"
KEYS = ("source", "table", "dataset", "model", "inference", "metric", "n")
DOUBTFUL = "ocr-doubtful"


@dataclass(frozen=True)
class Published:
    """A printed number with what follows +-, and that as a standard error where the source says how."""

    value: float
    printed_error: float | None
    error: float | None
    confidence: str
    note: str
    source: str
    table: str

    @property
    def doubtful(self) -> bool:
        """Not to be used as truth: shown with a mark, left out of every comparison."""
        return self.confidence == DOUBTFUL


@lru_cache(maxsize=1)
def frame() -> pd.DataFrame:
    import pandas as pd

    text = {name: str for name in ("source", "table", "dataset", "model", "inference", "metric", "note")}
    numbers = {name: [""] for name in ("n", "d", "value", "stderr")}
    return pd.read_csv(FILE, dtype=text, keep_default_na=False, na_values=numbers)


@lru_cache(maxsize=1)
def _lines() -> dict[tuple[str, str, str], list]:
    """Lines by source, table and dataset."""
    found: dict[tuple[str, str, str], list] = {}
    for line in frame().itertuples(index=False):
        found.setdefault((line.source, line.table, line.dataset), []).append(line)
    return found


def find(wanted: dict) -> Published | None:
    """The one line that fits `wanted` (fields of KEYS; `error` and `error_divisor` say what +- is).

    UserError if several fit: a spec must name a cell, not a set of them.
    """
    if not {"source", "table", "dataset"} <= set(wanted):
        return None
    given = [(key, wanted[key]) for key in KEYS[3:] if key in wanted]
    lines = _lines().get(tuple(wanted[key] for key in KEYS[:3]), [])
    lines = [line for line in lines if all(getattr(line, key) == value for key, value in given)]
    if len(lines) > 1:
        raise UserError(
            f"{len(lines)} published cells fit {wanted}; name one, by model, inference, metric or n"
        )
    if not lines:
        return None
    line = lines[0]
    printed = None if line.stderr != line.stderr else float(line.stderr)
    error = None if printed is None else printed / wanted.get("error_divisor", 1)
    return Published(float(line.value), printed, error, line.confidence, line.note, line.source, line.table)


@lru_cache(maxsize=1)
def citations() -> dict[str, str]:
    """Source name to full reference."""
    import yaml

    return yaml.safe_load((FOLDER / "sources.yaml").read_text(encoding="utf-8"))
