"""Charts of a table: scores, ranks, all models by datasets, training time, calibration; and its pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.report.charts import Axis, Layer, Nothing, Panel, Rows, near_range
from dgpbench.report.charts.picture import Picture, PictureSpec, panels_picture
from dgpbench.report.charts.rank_diagram import rank_picture
from dgpbench.report.diagnostics import frontier_frame, pit_curves, reliability_curves
from dgpbench.report.leaderboard import board
from dgpbench.report.result_table import Table
from dgpbench.report.rules import Summary

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.975  # upper end of a central 95 % interval
SCORES = "Dot: mean over splits; thick line: standard error; thin line: 95 % interval (Student's t)."
TIME = "Joined: models that no other beats in both score and time."
LEVELS = "0 is calibrated. A curve falls first where intervals are too wide and rises first where too narrow."


def quantity(table: Table) -> str:
    """Return what an axis of the table's values shows, with units."""
    place = next(iter(table.cells.values())).place
    own = known_metrics().get(place.metric or "")
    title = own.title if own else ""
    return f"{title} ({table.spec.units})" if title and table.spec.units else title or table.spec.units


def scores(table: Table, label: str) -> list[Panel]:
    """Return a panel per dataset: mean, standard error and 95 % interval of each model, also as published."""
    found = [(row, rows) for row in table.spec.rows if (rows := _scores_of(table, row))]
    return [_dots(row, rows, table, label) for row, rows in found]


def _scores_of(table: Table, row: str) -> Rows:
    from scipy.special import stdtrit

    rows: Rows = []
    for column in table.spec.columns:
        if (row, column) not in table.cells:
            continue
        for whose, found in (("ours", table.ours(row, column)), ("published", table.published(row, column))):
            if found is None or not math.isfinite(found.mean):
                continue
            error = found.error if found.error is not None and math.isfinite(found.error) else 0.0
            wide = error * (float(stdtrit(found.n - 1, LEVEL)) if found.n > 1 else 1.0)
            rows.append(
                {
                    "model": column,
                    "whose": whose,
                    whose: True,
                    "value": found.mean,
                    "low": found.mean - error,
                    "high": found.mean + error,
                    "lowest": found.mean - wide,
                    "highest": found.mean + wide,
                    "text": _with_error(found),
                    "splits": found.n if whose == "ours" else None,
                }
            )
    return rows


def _with_error(found: Summary) -> str:
    return f"{found.mean:.4g}" + (f" ({found.error:.2g})" if found.error is not None else "")


def _dots(title: str, rows: Rows, table: Table, label: str) -> Panel:
    """Dots with intervals by model; a value far from all others is drawn at the edge with its number."""
    columns = table.spec.columns
    low, high = near_range([row["value"] for row in rows])
    span = (high - low) or max(abs(high), 1.0) * 0.1
    kept = [row for row in rows if low <= row["value"] <= high]
    start = max(low - span, min(row["lowest"] for row in kept))
    end = min(high + span, max(row["highest"] for row in kept))
    pad = 0.04 * (end - start) or 0.05 * max(abs(end), 1.0)
    for row in rows:
        row["at"] = min(max(row["value"], start - pad), end + pad)
        row["far"] = ""
        if not low <= row["value"] <= high:
            below = row["value"] < low
            row |= dict.fromkeys(("low", "high", "lowest", "highest"), row["at"])
            row |= {
                "far": ("◂ " if below else "▸ ") + f"{row['value']:.4g}",
                "below": below,
                "above": not below,
            }
    tips = {"model": "model", "whose": "whose", "text": "mean (s.e.)", "splits": "splits"}
    layers = [
        Layer("rule", "lowest", "model", x2="highest", only="ours", size=1),
        Layer("rule", "low", "model", x2="high", only="ours", size=3),
        Layer("point", "at", "model", only="ours", size=70, tips=tips),
    ]
    printed = any(row["whose"] == "published" for row in rows)
    if printed:
        layers += [
            Layer("rule", "lowest", "model", x2="highest", only="published", style="soft", size=1),
            Layer("point", "at", "model", only="published", style="soft", size=70, hollow=True, tips=tips),
        ]
    base = [
        {"x": row["at"]} for row in rows if row["model"] == table.spec.baseline and row["whose"] == "ours"
    ]
    layers += [Layer("rule", y="", rows=base, style="guide")] if base else []
    layers += [
        Layer("text", "at", "model", text="far", only=side, style="inktext", align=align)
        for side, align in (("below", "left"), ("above", "right"))
    ]
    names = tuple(column for column in columns if any(row["model"] == column for row in rows))
    offset = ("whose", ("ours", "published")) if printed else None
    x = Axis(label, (start - pad, end + pad))
    return Panel(title, rows, x, Axis("model", names=names), tuple(layers), columns, offset)


def ranks(table: Table) -> list[Panel]:
    """Return the average ranks of the models with their bootstrap intervals."""
    found = board(table).data
    if len(found) < 2:
        return []
    rows: Rows = [
        {
            "model": line.method,
            "rank": line.rank,
            "low": line.rank_low,
            "high": line.rank_high,
            "text": f"{line.rank:.2f} [{line.rank_low:.2f}, {line.rank_high:.2f}]",
            "wins": f"{line.win_rate:.0%}",
            "datasets": line.datasets,
            "splits": line.splits,
        }
        for line in found.itertuples()
    ]
    tips = {"model": "model", "text": "average rank [95 % interval]", "wins": "win rate"}
    layers = (
        Layer("rule", "low", "model", x2="high", size=2),
        Layer("point", "rank", "model", tips=tips | {"datasets": "datasets", "splits": "splits"}),
    )
    x = Axis("average rank (1 = best)", (0.8, len(rows) + 0.2), whole=True)
    y = Axis("model", names=tuple(found.method))
    return [Panel("Average ranks", rows, x, y, layers, table.spec.columns)]


def heat(table: Table, label: str) -> list[Panel]:
    """Return the map of models by datasets, shaded by the gap to the best of each dataset."""
    rows: Rows = []
    for name in table.spec.rows:
        cells = {c: table.ours(name, c) for c in table.spec.columns if (name, c) in table.cells}
        found = {c: s for c, s in cells.items() if s and math.isfinite(s.mean)}
        if not found:
            continue
        higher = table.cells[name, next(iter(found))].place.better == "higher"
        means = [s.mean for s in found.values()]
        low, high = near_range(means)
        best, top = (max(means), high) if higher else (min(means), low)
        for column, s in found.items():
            gap = abs(top - min(max(s.mean, low), high)) / ((high - low) or 1.0)
            rows.append(
                {
                    "dataset": name,
                    "model": column,
                    "gap": gap,
                    "dark": gap < 0.45,
                    "light": gap >= 0.45,
                    "text": f"{s.mean:.3g}",
                    "full": _with_error(s),
                    "behind": f"{abs(best - s.mean):.3g}",
                    "splits": s.n,
                }
            )
    if not rows:
        return []
    sets = tuple(dict.fromkeys(row["dataset"] for row in rows))
    models = tuple(c for c in table.spec.columns if any(row["model"] == c for row in rows))
    tips = {
        "model": "model",
        "dataset": "dataset",
        "full": label,
        "behind": "behind the best",
        "splits": "splits",
    }
    title = f"{label}: models by datasets"
    layers = (Layer("rect", "dataset", "model", colour_by="gap", tips=tips), *shaded_text(sets))
    x, y = Axis("dataset", names=sets), Axis("model", names=models)
    return [Panel(title, rows, x, y, layers, legend="gap to the best (1 = largest)", wide=True)]


def shaded_text(names: Sequence[str], x: str = "dataset", y: str = "model") -> tuple[Layer, ...]:
    """Return the numbers on shaded rectangles, omitted where there is no room."""
    return tuple(
        Layer("text", x, y, text="text", only=only, style=style, least_width=44 * len(names))
        for style, only in (("papertext", "dark"), ("inktext", "light"))
    )


def seconds(table: Table, label: str) -> list[Panel]:
    """Return a panel per dataset: the score against the training time, undominated models joined."""
    data = frontier_frame(table)
    found = []
    for name in (row for row in table.spec.rows if row in set(data.dataset)):
        part = data[(data.dataset == name) & np.isfinite(data.value) & (data.seconds > 0)]
        if len(part):
            found.append(_against_seconds(name, part.sort_values("seconds"), table, label))
    return found


def _against_seconds(name: str, part: pd.DataFrame, table: Table, label: str) -> Panel:
    low, high = near_range(part.value)
    rows: Rows = []
    for line in part.itertuples():
        s = table.ours(name, line.model)
        error = s.error if s and s.error is not None and math.isfinite(s.error) else 0.0
        at = min(max(line.value, low), high)
        far = "" if at == line.value else f"{'↓' if line.value < low else '↑'} {line.value:.3g}"
        rows.append(
            {
                "model": line.model,
                "seconds": line.seconds,
                "at": at,
                "front": bool(line.frontier),
                "other": not line.frontier,
                "far": far,
                "is_far": bool(far),
                "low": at if far else at - error,
                "high": at if far else at + error,
                "text": f"{line.value:.4g}" + (f" ({error:.2g})" if error else ""),
                "time": f"{line.seconds:.3g} s",
                "splits": int(line.splits),
            }
        )
    tips = {"model": "model", "text": "mean (s.e.)", "time": "training time", "splits": "splits"}
    front = [{"seconds": row["seconds"], "at": row["at"]} for row in rows if row["front"]]
    layers = (
        Layer("line", "seconds", "at", rows=front, style="guide"),
        Layer("rule", "seconds", "low", y2="high", size=1.5),
        Layer("point", "seconds", "at", only="front", tips=tips),
        Layer("point", "seconds", "at", only="other", hollow=True, tips=tips),
        Layer("text", "seconds", "at", text="far", only="is_far", style="inktext", align="above"),
    )
    ends = min(row["low"] for row in rows), max(row["high"] for row in rows)
    pad = 0.12 * (ends[1] - ends[0]) or 0.05 * max(abs(ends[1]), 1.0)
    x = Axis("training time on a core (s)", (part.seconds.min() / 1.3, part.seconds.max() * 1.3), log=True)
    return Panel(name, rows, x, Axis(label, (ends[0] - pad, ends[1] + pad)), layers, table.spec.columns)


def calibration(table: Table) -> list[Panel]:
    """Return a panel per dataset: how far PIT values, or accuracies, are from calibrated."""
    data, x, y = pit_curves(table), "level", "share of PIT values below, minus the level"
    if data.empty:
        data, x, y = reliability_curves(table), "confidence", "accuracy minus confidence"
    tips = {"model": "model", "x": x, "y": "difference", "splits": "splits"}
    layers = (
        Layer("rule", x="", rows=[{"y": 0.0}], style="guide"),
        Layer("line", size=1.5),
        Layer("point", size=45, tips=tips),
    )
    found = []
    for name in (row for row in table.spec.rows if row in set(data.dataset)):
        rows: Rows = [
            {"model": line.model, "x": line.level, "y": line.share - line.level, "splits": int(line.splits)}
            for line in data[data.dataset == name].itertuples()
        ]
        found.append(Panel(name, rows, Axis(x), Axis(y), layers, table.spec.columns))
    return found


KEPT = ("n_done", "n_expected", "n_failed", "mean", "stderr")


def dots_picture(spec: PictureSpec, table: Table) -> Picture:
    """Draw dot and whisker per dataset (thesis figures 2.4, 4.6): ours beside published."""
    import pandas as pd

    panels = scores(table, quantity(table))
    if not panels:
        raise Nothing(f"table {table.spec.name} has no run and nothing published")
    lines = []
    for (row, column), cell in table.cells.items():
        numbers = cell.numbers(table.ours(row, column))
        printed = table.published(row, column)
        lines.append(
            {"row": row, "column": column}
            | {name: numbers[name] for name in KEPT}
            | {"published": printed and printed.mean, "published_stderr": printed and printed.error}
        )
    data = pd.DataFrame(lines).astype({"n_expected": "Int64"})
    place = next(iter(table.cells.values())).place
    side = "right" if place.better == "higher" else "left"
    whose = "ours: " if any(panel.offset for panel in panels) else ""
    base = f"; vertical line: {table.spec.baseline}" if table.spec.baseline else ""
    notes = (
        f"dots: mean, thick lines: standard error, thin: 95 % interval; to the {side} is better{base}",
        *(("hollow: published, with its standard error",) if whose else ()),
        "with an arrow and its number: a value far from all others, drawn at the edge",
        f"{whose}{table.done} of {table.expected} splits done, {table.failed} failed",
    )
    names = max(len(panel.y.names) for panel in panels)
    width = 2.3 + 0.07 * max(map(len, table.spec.columns))
    return panels_picture(spec.name, spec.title, panels, data, notes, size=(width, 0.75 + 0.19 * names))


def frontier_picture(spec: PictureSpec, table: Table) -> Picture:
    """Draw accuracy against training time: one panel per dataset, the undominated models joined."""
    panels = seconds(table, quantity(table))
    if not panels:
        raise Nothing(f"table {table.spec.name}: no finished run with its training seconds")
    notes = (
        "filled: no other model is at least as good and as quick; time: seconds in which the run had a core, "
        "for models without a training loop those of the whole run",
        "with an arrow and its number: a value far from all others, drawn at the edge",
    )
    return panels_picture(spec.name, spec.title, panels, frontier_frame(table), notes)


def calibration_picture(spec: PictureSpec, table: Table) -> Picture:
    """Draw the calibration curves of the records, one panel per dataset."""
    panels = calibration(table)
    if not panels:
        raise Nothing(f"table {table.spec.name}: no finished run with a PIT histogram or reliability data")
    data = pit_curves(table)
    notes = ("mean over splits; 0 is calibrated; down then up: too wide, up then down: too narrow",)
    if data.empty:
        data = reliability_curves(table)
        notes = (
            "test rows of all splits, by the largest probability; 0 is calibrated, below: overconfident",
        )
    return panels_picture(spec.name, spec.title, panels, data, notes, size=(2.5, 2.2))


PICTURES: dict[str, Callable[[PictureSpec, Table], Picture]] = {  # by the kind of a figure
    "dots": dots_picture,
    "ranks": rank_picture,
    "frontier": frontier_picture,
    "calibration": calibration_picture,
}
