"""Notes below a table: its rules in words, the state of our runs, failures and their reasons."""

from __future__ import annotations

from dgpbench.papers.published import citations
from dgpbench.papers.table import Table
from dgpbench.report.others import community, others_note
from dgpbench.report.rules import NON_GAUSSIAN

FROM_MEANS = "published footers: computed from the printed dataset means; printed: as printed"
ROUNDED = "published: bold by the same rule on the rounded printed values"


def rule_notes(table: Table, sides: tuple[str, ...]) -> list[str]:
    """How to read the numbers: means, marks, printed errors, source."""
    spec = table.spec
    better = {cell.place.better for cell in table.cells.values()}
    wanted = " or ".join(sorted(better))
    notes = [f"mean (standard error) over splits, n done / n expected; {wanted} is better"]
    if spec.ours == "perf":
        notes = ["ours: median of the turns, n turns; published: mean of 100 steps"]
    if sides and spec.bold != "none":
        notes.append("bold: error bars overlap those of the best")
        notes += [ROUNDED] if "published" in sides else []
    if spec.footers and "published" in sides and not table.published_frame().empty:
        notes.append(FROM_MEANS)
    if spec.italics and "ours" in sides:
        notes.append(f"italics: non-Gaussian, median Shapiro W below {NON_GAUSSIAN}")
    if any(c.published and c.published.doubtful for c in table.cells.values()):
        notes.append("?: doubtful reading of a damaged copy; shown, never compared with")
    errors = {text for c in table.cells.values() if c.published and (text := c.place.published.get("error"))}
    notes += [
        f"published error: {text}; comparisons turn it into a standard error" for text in sorted(errors)
    ]
    if spec.source:
        notes.append(f"published: {citations().get(spec.source, spec.source)}")
    return notes


def state_notes(table: Table, idle: int) -> list[str]:
    """How far ours has been run, what cannot be and why, failures; `idle` counts rows without a run."""
    notes = []
    if table.expected:
        others = {unit.record["key"] for cell in table.cells.values() for unit in community(cell.units)}
        among = f"; {len(others)} of the records by others" if others else ""
        notes.append(f"ours: {table.done} of {table.expected} splits done, {table.failed} failed{among}")
    notes += others_note(table.cells)
    if idle:
        notes.append(f"{idle} of {len(table.spec.rows)} rows have no run of ours")
    notes += [f"{', '.join(where)}: {reason}" for reason, where in _absent(table).items()]
    return [*notes, *table.failures()]


def _absent(table: Table) -> dict[str, list[str]]:
    """Columns and rows of which no cell can be run, and rows without data, by the reason; single cells that a
    spec leaves out are said in its own notes."""
    out: dict[str, list[str]] = {}
    for axis, names in ((1, table.spec.columns), (0, table.spec.rows)):
        for name in names:
            reasons = {cell.absent for at, cell in table.cells.items() if at[axis] == name}
            if axis == 0:
                reasons = {why for why in reasons if why and why.startswith("no dataset")} or reasons
            if len(reasons) == 1 and (reason := reasons.pop()):
                out.setdefault(reason, []).append(name)
    return out
