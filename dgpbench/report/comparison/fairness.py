"""What each column is, and what makes columns comparable: other differences are errors or notes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from dgpbench.config import derived
from dgpbench.config.keys import later_defaults
from dgpbench.config.refusals import unused_sections
from dgpbench.config.schema import show_value
from dgpbench.errors import UserError
from dgpbench.report.grid import Grid, plain
from dgpbench.store.differences import config_differences
from dgpbench.store.record import Record

if TYPE_CHECKING:
    from dgpbench.report.comparison.compare_runs import Comparison

# fields of the protocol that decide which rows are tested on, what is known of them, and in which units
TESTED = (
    "split_rule",
    "train_fraction",
    "scaling",
    "fixed_test",
    "stratify",
    "max_test",
    "test_rows",
    "row_number",
    "pixels",
)
DIFFERENT = "columns have different splits: bold, ranks and tests are on the common ones"


def refuse(configs: Mapping[str, dict]) -> None:
    """UserError if columns (config by label) differ in protocol: other test rows, scaling or units."""
    tasks = {label: config["dataset"].get("task", "regression") for label, config in configs.items()}
    if len(set(tasks.values())) > 1:
        raise UserError(f"columns differ in task ({_values_text(tasks)}); compare them one task at a time")
    for label, config in configs.items():
        if _protocol(config).get("evaluate", "test") != "test":
            raise UserError(
                f"{label} is scored on validation rows: such runs choose settings, see dgpbench tune"
            )
    for field in TESTED:
        found = {label: _protocol(config).get(field) for label, config in configs.items()}
        if len({show_value(value) for value in found.values()}) > 1:
            raise UserError(
                f"columns differ in protocol.{field} ({_values_text(found)}): not the same test rows, "
                "scaling or units; compare under one protocol at a time"
            )


def _protocol(config: dict) -> dict:
    return later_defaults("protocol") | config["protocol"]


def _values_text(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{label}: {show_value(value)}" for label, value in values.items())


def marks(comparison: Comparison) -> list[str]:
    """What a reader must know before comparing columns: estimators, rows, splits, machines, tuning."""
    return [
        *_estimators(comparison),
        *_held_out(comparison),
        *_sizes(comparison),
        *_splits(comparison),
        *_machines(comparison),
        *_budgets(comparison),
    ]


def _first_configs(comparison: Comparison) -> dict[str, dict]:
    spec = comparison.table.spec
    return {column: comparison.configs[spec.rows[0], column] for column in spec.columns}


def _differing(comparison: Comparison, fields: Iterable[str]) -> list[tuple[str, dict]]:
    configs = _first_configs(comparison)
    found = [(field, {c: _protocol(config)[field] for c, config in configs.items()}) for field in fields]
    return [(field, values) for field, values in found if len({show_value(v) for v in values.values()}) > 1]


def _estimators(comparison: Comparison) -> list[str]:
    return [
        f"the estimator differs: protocol.{field} is {_values_text(values)}"
        for field, values in _differing(comparison, comparison.metric.estimator)
    ]


def _held_out(comparison: Comparison) -> list[str]:
    return [
        f"columns train on different rows: protocol.{field} is {_values_text(values)}"
        for field, values in _differing(comparison, ("validation",))
    ]


def _sizes(comparison: Comparison) -> list[str]:
    """Records of one row and split that were not tested on equally many rows."""
    notes = []
    for row in comparison.table.spec.rows:
        found: dict[int, dict[str, tuple]] = {}
        for column in comparison.table.spec.columns:
            for unit in comparison.table.cells[row, column].units:
                sizes = unit.record.sizes
                if unit.record.done and "n_test" in sizes:
                    found.setdefault(unit.record.split, {})[column] = sizes["n_test"]
        bad = {split: sizes for split, sizes in found.items() if len(set(sizes.values())) > 1}
        if bad:
            split, sizes = next(iter(bad.items()))
            notes.append(f"{row}, split {split}: not tested on equally many rows ({_values_text(sizes)})")
    return notes


def uneven(comparison: Comparison) -> set[str]:
    """Rows of which the columns have not the same splits."""
    table = comparison.table
    return {
        row
        for row in table.spec.rows
        if len({tuple(sorted(v)) for c in table.spec.columns if (v := table.cells[row, c].values)}) > 1
    }


def _splits(comparison: Comparison) -> list[str]:
    rows = [row for row in comparison.table.spec.rows if row in uneven(comparison)]
    if not rows:
        return []
    return [f"† {DIFFERENT} ({', '.join(rows)})"]


def _done(comparison: Comparison) -> list[Record]:
    cells = comparison.table.cells.values()
    return [u.record for cell in cells for u in cell.units if u.record.done]


def _machines(comparison: Comparison) -> list[str]:
    trained = [r for r in _done(comparison) if r.threads]
    found = sorted({f"{r.device}, threads: {r.threads}" for r in trained})
    return [f"seconds are of different machines: {'; '.join(found)}"] if len(found) > 1 else []


def _budgets(comparison: Comparison) -> list[str]:
    """Columns that were not given the same training."""
    configs = {c: g for c, g in _first_configs(comparison).items() if not g["model"].get("closed_form")}
    notes = []
    for field, value in (
        ("budget", lambda g: budget_text(g)),
        ("precision", lambda g: g["precision"]),
    ):
        found = {column: value(config) for column, config in configs.items()}
        if len(set(found.values())) > 1:
            notes.append(f"{field} differs: {_values_text(found)}")
    return notes


def budget_text(config: dict) -> str:
    """'20,000 steps', '60 s', or 'closed form' where nothing is optimised."""
    if config["model"].get("closed_form"):
        return "closed form"
    return derived.budget_text(config["budget"])


def training_seconds(comparison: Comparison, column: str, name: str = "seconds") -> float | None:
    """Mean over the datasets of the mean training seconds of a column's runs."""
    means = []
    for row in comparison.table.spec.rows:
        done = [u.record for u in comparison.table.cells[row, column].units if u.record.done]
        spent = [r["training"].get("seconds") if name == "seconds" else r["wall_seconds"] for r in done]
        spent = [s for s in spent if s is not None]
        means += [fmean(spent)] if spent else []
    return fmean(means) if means else None


def columns_grid(comparison: Comparison) -> Grid:
    """What each column is: settings that are not the defaults, budget, precision, time, tuning."""
    spec = comparison.table.spec
    lines = []
    for column in spec.columns:
        config = comparison.configs[spec.rows[0], column]
        units = [u for row in spec.rows for u in comparison.table.cells[row, column].units]
        lines.append(
            {
                "column": column,
                **in_words(config),
                "training s": training_seconds(comparison, column) or math.nan,
                "all s": training_seconds(comparison, column, "wall") or math.nan,
                "tuned": tuned_text([unit.record for unit in units]),
            }
        )
    notes = (
        "settings: what is not the default; seconds: mean over datasets of the mean over splits, all s with "
        "loading, compilation and evaluation",
    )
    data = pd.DataFrame(lines)
    data = data[[c for c in data if c in ("column", "settings") or (data[c].astype(str) != "").any()]]
    formats = {"training s": ".3g", "all s": ".3g"}
    return plain("What the columns are", data, formats, name="comparison-columns", notes=notes)


def in_words(config: dict) -> dict[str, str]:
    """A config as a reader may want it: names, settings that are not the default, budget, precision."""
    names = {group: config[group]["name"] for group in ("model", "inference", "protocol")}
    return {
        **names,
        "settings": settings_text(config),
        "budget": budget_text(config),
        "precision": precision_text(config),
    }


def precision_text(config: dict) -> str:
    """The precision of training; none for models that do not heed it."""
    return "" if "precision" in unused_sections(config["model"]) else config["precision"]


def settings_text(config: dict) -> str:
    """Settings that are not the default, without those of the data."""
    if experiment := config.get("experiment"):
        return f"experiment={experiment}"
    return " ".join(word for word in config_differences(config) if not word.startswith("dataset."))


def tuned_text(records: list[Record]) -> str:
    """How the settings of these runs were chosen, where their records say so."""
    found = dict.fromkeys(str(r.config["tuned"]) for r in records if r.config.get("tuned"))
    return "; ".join(found)
