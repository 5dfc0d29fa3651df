"""What makes columns comparable. What would make them not is refused, or marked below the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dgpbench.config import budget
from dgpbench.config.keys import later_defaults
from dgpbench.config.schema import show_value
from dgpbench.errors import UserError

if TYPE_CHECKING:
    from dgpbench.report.comparison.fill import Comparison

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
        raise UserError(f"columns differ in task ({_said(tasks)}); compare them one task at a time")
    for label, config in configs.items():
        if _protocol(config).get("evaluate", "test") != "test":
            raise UserError(
                f"{label} is scored on validation rows: such runs choose settings, see dgpbench tune"
            )
    for field in TESTED:
        found = {label: _protocol(config).get(field) for label, config in configs.items()}
        if len({show_value(value) for value in found.values()}) > 1:
            raise UserError(
                f"columns differ in protocol.{field} ({_said(found)}): not the same test rows, scaling or "
                "units; compare under one protocol at a time"
            )


def _protocol(config: dict) -> dict:
    return later_defaults("protocol") | config["protocol"]


def _said(values: Mapping[str, Any]) -> str:
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
        f"the estimator differs: protocol.{field} is {_said(values)}"
        for field, values in _differing(comparison, comparison.metric.estimator)
    ]


def _held_out(comparison: Comparison) -> list[str]:
    return [
        f"columns train on different rows: protocol.{field} is {_said(values)}"
        for field, values in _differing(comparison, ("validation",))
    ]


def _sizes(comparison: Comparison) -> list[str]:
    """Records of one row and split that were not tested on equally many rows."""
    notes = []
    for row in comparison.table.spec.rows:
        found: dict[int, dict[str, tuple]] = {}
        for column in comparison.table.spec.columns:
            for unit in comparison.table.cells[row, column].units:
                sizes = unit.record["sizes"]
                if unit.record["status"] == "done" and "n_test" in sizes:
                    found.setdefault(unit.record["split"], {})[column] = sizes["n_test"]
        bad = {split: sizes for split, sizes in found.items() if len(set(sizes.values())) > 1}
        if bad:
            split, sizes = next(iter(bad.items()))
            notes.append(f"{row}, split {split}: not tested on equally many rows ({_said(sizes)})")
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


def _done(comparison: Comparison) -> list[dict]:
    cells = comparison.table.cells.values()
    return [u.record for cell in cells for u in cell.units if u.record["status"] == "done"]


def _machines(comparison: Comparison) -> list[str]:
    trained = [r for r in _done(comparison) if r["threads"]]
    found = sorted({f"{r['device']}, threads: {r['threads']}" for r in trained})
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
            notes.append(f"{field} differs: {_said(found)}")
    return notes


def budget_text(config: dict) -> str:
    """'20,000 steps', '60 s', or 'closed form' where nothing is optimised."""
    if config["model"].get("closed_form"):
        return "closed form"
    return budget.budget_text(config["budget"])
