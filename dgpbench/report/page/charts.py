"""Charts of the page as Vega-Lite specifications. Text from records appears in data and titles only."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from dgpbench.report.diagnostics import frontier_frame
from dgpbench.report.figures.calibration import curves, reliability_curves
from dgpbench.report.figures.frontier import near_range
from dgpbench.report.figures.log_ticks import log_ticks
from dgpbench.report.figures.traces import LABELS, smooth, view_of
from dgpbench.report.leaderboard import board
from dgpbench.report.result_table import Table
from dgpbench.report.runs.panels import thin

POINTS = 120  # drawn of a training curve
MOST_LINES = 5  # curves of one model in one panel
STEP = 24  # pixels between models
HEIGHT = 230
LEVEL = 0.975  # upper end of a central 95 % interval
DOT = {"filled": True, "size": 90, "opacity": 1}
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    """A panel: its title, its specification, and whether it takes the whole width of the page."""

    title: str
    spec: dict[str, Any]
    wide: bool = False

    def html(self) -> str:
        """Return the panel with its specification as inert data."""
        spec = json.dumps(self.spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        name = escape(self.title)
        return (
            f'<figure class="chart{" wide" if self.wide else ""}"><figcaption>{name}</figcaption>'
            f'<div class="plot" role="img" aria-label="{name}"></div>'
            f'<script type="application/json">{spec}</script></figure>'
        )


def group(name: str, title: str, charts: Sequence[Chart], note: str = "", models: Sequence[str] = ()) -> str:
    """Return panels below one heading, with a legend if they do not name their models."""
    if not charts:
        return ""
    marks = "".join(f'<li data-mark="{i}">{escape(model)}</li>' for i, model in enumerate(models))
    legend = f'<ul class="legend">{marks}</ul>' if marks else ""
    about = f'<p class="notes">{escape(note)}</p>' if note else ""
    inside = "\n".join(chart.html() for chart in charts)
    heading = f'<div class="group" id="{escape(name)}"><h3>{escape(title)}</h3>{about}{legend}'
    return f'{heading}<div class="charts">{inside}</div></div>'


def lines_of(label: str) -> list[str]:
    """Return an axis title in two lines: the quantity and its units."""
    name, bracket, units = label.partition(" (")
    return [name, f"({units}"] if bracket else [label]


def scores(table: Table, label: str) -> list[Chart]:
    """Return a panel per dataset: mean, standard error and 95 % interval of each model, also as published."""
    found = []
    for row in table.spec.rows:
        rows = _scores_of(table, row)
        if rows:
            found.append(Chart(row, _dots(rows, table.spec.columns, label)))
    return found


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
                    "value": found.mean,
                    "low": found.mean - error,
                    "high": found.mean + error,
                    "lowest": found.mean - wide,
                    "highest": found.mean + wide,
                    "text": f"{found.mean:.4g}"
                    + (f" ({found.error:.2g})" if found.error is not None else ""),
                    "splits": found.n if whose == "ours" else None,
                }
            )
    return rows


def _dots(rows: Rows, columns: Sequence[str], label: str) -> dict[str, Any]:
    """Dots with intervals by model; a value far from all others is drawn at the edge with its number."""
    low, high = near_range([row["value"] for row in rows])
    span = (high - low) or max(abs(high), 1.0) * 0.1
    kept = [row for row in rows if low <= row["value"] <= high]
    start = max(low - span, min(row["lowest"] for row in kept))
    end = min(high + span, max(row["highest"] for row in kept))
    pad = 0.04 * (end - start) or 0.05 * max(abs(end), 1.0)
    for row in rows:
        row["at"] = min(max(row["value"], start - pad), end + pad)
        far = not low <= row["value"] <= high
        if not low <= row["value"] <= high:
            row |= dict.fromkeys(("low", "high", "lowest", "highest"), row["at"])
        row["far"] = ("◂ " if row["value"] < low else "▸ ") + f"{row['value']:.4g}" if far else ""
        row["side"] = "left" if row["value"] < low else "right"
    names = [column for column in columns if any(row["model"] == column for row in rows)]
    printed = any(row["whose"] == "published" for row in rows)
    place: dict[str, Any] = {
        "y": {
            "field": "model",
            "type": "nominal",
            "scale": {"domain": names},
            "title": "model",
            "axis": {"grid": True},
        }
    }
    if printed:
        place["yOffset"] = {"field": "whose", "type": "nominal", "scale": {"domain": ["ours", "published"]}}
    scale = {"domain": [start - pad, end + pad], "nice": False, "zero": False}
    x = {"field": "at", "type": "quantitative", "scale": scale, "title": lines_of(label)}
    marks = _marks(columns)
    tips = tips_of(model="model", whose="whose", text="mean (s.e.)", splits="splits")
    ours, theirs = {"filter": "datum.whose === 'ours'"}, {"filter": "datum.whose === 'published'"}
    layers: list[dict[str, Any]] = []
    for part, channel in ((ours, {"color": marks["color"]}), (theirs, {})):
        if part is theirs and not printed:
            continue
        style: dict[str, Any] = {} if channel else {"style": "soft"}
        for ends, size in ((("lowest", "highest"), 1), (("low", "high"), 3)):
            if part is ours or size == 1:
                layers.append(
                    {
                        "transform": [part],
                        "mark": {"type": "rule", "strokeWidth": size, "clip": True, **style},
                        "encoding": {"x": {**x, "field": ends[0]}, "x2": {"field": ends[1]}, **channel},
                    }
                )
        shape = {"shape": marks["shape"], **channel} if channel else {}
        dot = {"type": "point", "filled": bool(channel), "size": 70, "opacity": 1, "clip": True, **style}
        layers.append({"transform": [part], "mark": dot, "encoding": {"x": x, **shape, "tooltip": tips}})
    for side in ("left", "right"):
        text = {
            "type": "text",
            "align": side,
            "dx": 9 if side == "left" else -9,
            "fontSize": 11,
            "style": "inktext",
        }
        chosen = {"filter": f"datum.far !== '' && datum.side === '{side}'"}
        layers.append({"transform": [chosen], "mark": text, "encoding": {"x": x, "text": {"field": "far"}}})
    step = {"step": STEP if not printed else STEP + 8, "for": "position"} if printed else {"step": STEP}
    return spec_of(rows, layers, encoding=place, height=step)


def ranks(table: Table) -> list[Chart]:
    """Return the average ranks of the models with their bootstrap intervals."""
    found = pd.DataFrame(board(table).data)
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
    scale = {"domain": [0.8, len(rows) + 0.2], "nice": False, "zero": False}
    x = {"field": "rank", "type": "quantitative", "scale": scale, "title": "average rank (1 = best)"}
    x["axis"] = {"tickMinStep": 1}
    y = {"field": "model", "type": "nominal", "sort": None, "title": "model", "axis": {"grid": True}}
    marks = _marks(table.spec.columns)
    ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": marks["color"]}
    tips = tips_of(
        model="model",
        text="average rank [95 % interval]",
        wins="win rate",
        datasets="datasets",
        splits="splits",
    )
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": ends},
        {"mark": {"type": "point", **DOT}, "encoding": {"x": x, "y": y, **marks, "tooltip": tips}},
    ]
    return [Chart("Average ranks", spec_of(rows, layers, height={"step": STEP}))]


def heat(table: Table, label: str) -> list[Chart]:
    """Return the map of models by datasets, coloured by the gap to the best of each dataset."""
    rows: Rows = []
    for name in table.spec.rows:
        cells = {c: table.ours(name, c) for c in table.spec.columns if (name, c) in table.cells}
        found = {c: s for c, s in cells.items() if s and math.isfinite(s.mean)}
        if not found:
            continue
        higher = table.cells[name, next(iter(found))].place.better == "higher"
        low, high = near_range([s.mean for s in found.values()])
        means = [s.mean for s in found.values()]
        best, top = (max(means), high) if higher else (min(means), low)
        for column, s in found.items():
            gap = abs(top - min(max(s.mean, low), high)) / ((high - low) or 1.0)
            rows.append(
                {
                    "dataset": name,
                    "model": column,
                    "gap": gap,
                    "text": f"{s.mean:.3g}",
                    "full": f"{s.mean:.4g}" + (f" ({s.error:.2g})" if s.error is not None else ""),
                    "behind": f"{abs(best - s.mean):.3g}",
                    "splits": s.n,
                }
            )
    if not rows:
        return []
    sets = list(dict.fromkeys(row["dataset"] for row in rows))
    models = [c for c in table.spec.columns if any(row["model"] == c for row in rows)]
    place = {
        "x": {
            "field": "dataset",
            "type": "nominal",
            "scale": {"domain": sets},
            "title": "dataset",
            "axis": {"labelAngle": -35, "domain": False, "ticks": False},
        },
        "y": {
            "field": "model",
            "type": "nominal",
            "scale": {"domain": models},
            "title": "model",
            "axis": {"domain": False, "ticks": False},
        },
    }
    tips = tips_of(model="model", dataset="dataset", full=label, behind="behind the best", splits="splits")
    colour = {
        "field": "gap",
        "type": "quantitative",
        "scale": {"domain": [0, 1], "range": "heatmap"},
        "legend": {
            "title": "gap to the best (1 = largest)",
            "values": [0, 0.5, 1],
            "gradientLength": 180,
        },
    }
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "rect", "cornerRadius": 3}, "encoding": {"color": colour, "tooltip": tips}}
    ]
    room = {"expr": f"width < {44 * len(sets)} ? 0 : 1"}
    for style, test in (("papertext", "datum.gap < 0.45"), ("inktext", "datum.gap >= 0.45")):
        mark = {"type": "text", "style": style, "opacity": room, "tooltip": None, "fontSize": 11}
        layers.append(
            {"transform": [{"filter": test}], "mark": mark, "encoding": {"text": {"field": "text"}}}
        )
    spec = spec_of(rows, layers, encoding=place, height={"step": STEP + 4})
    return [Chart(f"{label}: models by datasets", spec, wide=True)]


def seconds(table: Table, label: str) -> list[Chart]:
    """Return a panel per dataset: the score against the training time, undominated models joined."""
    data = frontier_frame(table)
    found = []
    for name in (row for row in table.spec.rows if row in set(data.dataset)):
        part = data[(data.dataset == name) & np.isfinite(data.value) & (data.seconds > 0)].sort_values(
            "seconds"
        )
        if part.empty:
            continue
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
                    "far": far,
                    "low": at - error if not far else at,
                    "high": at + error if not far else at,
                    "text": f"{line.value:.4g}" + (f" ({error:.2g})" if error else ""),
                    "time": f"{line.seconds:.3g} s",
                    "splits": int(line.splits),
                }
            )
        x = {
            "field": "seconds",
            "type": "quantitative",
            "title": "training time on a core (s)",
            **_log(part.seconds.min() / 1.3, part.seconds.max() * 1.3),
        }
        y = {
            "field": "at",
            "type": "quantitative",
            "title": lines_of(label),
            "scale": {"zero": False, "padding": 12},
        }
        marks = _marks(table.spec.columns)
        front = {"filter": "datum.front"}
        tips = tips_of(model="model", text="mean (s.e.)", time="training time", splits="splits")
        layers: list[dict[str, Any]] = [
            {"transform": [front], "mark": {"type": "line", "style": "guide"}, "encoding": {"x": x, "y": y}},
            {
                "mark": {"type": "rule", "strokeWidth": 1.5},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                    "color": marks["color"],
                },
            },
            {"mark": {"type": "point", **DOT}, "encoding": {"x": x, "y": y, **marks, "tooltip": tips}},
            {
                "transform": [{"filter": "datum.far !== ''"}],
                "mark": {"type": "text", "dy": -12, "style": "inktext"},
                "encoding": {"x": x, "y": y, "text": {"field": "far"}},
            },
        ]
        found.append(Chart(name, spec_of(rows, layers)))
    return found


def calibration(table: Table) -> list[Chart]:
    """Return a panel per dataset: how far PIT values, or accuracies, are from calibrated."""
    data, x_label, y_label = curves(table), "level", "share of PIT values below, minus the level"
    if data.empty:
        data, x_label, y_label = reliability_curves(table), "confidence", "accuracy minus confidence"
    found = []
    for name in (row for row in table.spec.rows if row in set(data.dataset)):
        part = data[data.dataset == name]
        rows: Rows = [
            {"model": line.model, "x": line.level, "y": line.share - line.level, "splits": int(line.splits)}
            for line in part.itertuples()
        ]
        x = {"field": "x", "type": "quantitative", "title": x_label, "scale": {"zero": False, "nice": False}}
        y = {"field": "y", "type": "quantitative", "title": y_label}
        marks = _marks(table.spec.columns)
        tips = tips_of(model="model", x=x_label, y="difference", splits="splits")
        layers: list[dict[str, Any]] = [
            {
                "mark": {"type": "rule", "style": "guide"},
                "encoding": {"y": {"datum": 0, "type": "quantitative"}},
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": {"x": x, "y": y, "color": marks["color"]},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {"x": x, "y": y, **marks, "tooltip": tips},
            },
        ]
        found.append(Chart(name, spec_of(rows, layers)))
    return found


def training(data: pd.DataFrame, columns: Sequence[str], x: str = "seconds", y: str = "bound") -> list[Chart]:
    """Return a panel per dataset of `trace_frame`: each curve smoothed, with its raw values behind."""
    found = []
    for name in dict.fromkeys(data.panel):
        lines: list[tuple] = []
        for (method, split), part in data[data.panel == name].groupby(["method", "split"], sort=False):
            part = part[np.isfinite(part[x]) & np.isfinite(part[y]) & (part[x] > 0)].sort_values("step")
            if len(part) > 1 and sum(line[0] == method for line in lines) < MOST_LINES:
                lines.append((method, split, part))
        if lines:
            found.append(Chart(name, _curves(lines, columns, x, y)))
    return found


def _curves(
    lines: Sequence[tuple[str, Any, pd.DataFrame]], columns: Sequence[str], x: str, y: str
) -> dict[str, Any]:
    rows: Rows = []
    for number, (method, split, part) in enumerate(lines):
        raw, smoothed = part[y].to_numpy(float), smooth(part[y].to_numpy(float))
        for i in _spread(part[x].to_numpy(float)):
            rows.append(
                {
                    "model": method,
                    "line": number,
                    "split": str(split),
                    "x": float(part[x].iloc[i]),
                    "raw": float(raw[i]),
                    "y": float(smoothed[i]),
                    "step": int(part.step.iloc[i]),
                    "end": bool(i == len(part) - 1),
                }
            )
    bounds = [(part.step.to_numpy(float), part[y].to_numpy(float)) for _, _, part in lines]
    low, high = view_of(bounds)
    seen = [row["x"] for row in rows if row["y"] >= low]
    scale = {"domain": [low, high], "nice": False, "zero": False}
    if y == "step_size":
        scale = {"type": "log", "nice": False}
    horizontal = {
        "field": "x",
        "type": "quantitative",
        "title": LABELS[x],
        **_log(min(seen), max(seen)),
    }
    vertical = {"field": "y", "type": "quantitative", "title": LABELS[y], "scale": scale}
    marks, detail = _marks(columns), {"field": "line", "type": "nominal"}
    tips = tips_of(model="model", split="split", step="step", y=LABELS[y], raw="not smoothed")
    both = {"x": horizontal, "color": marks["color"], "detail": detail}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "line", "opacity": 0.3, "strokeWidth": 1, "clip": True},
            "encoding": {**both, "y": {**vertical, "field": "raw"}},
        },
        {"mark": {"type": "line", "strokeWidth": 2, "clip": True}, "encoding": {**both, "y": vertical}},
        {
            "mark": {"type": "point", "size": 60, "opacity": 0, "filled": True, "clip": True},
            "encoding": {**both, "y": vertical, "tooltip": tips},
        },
        {
            "transform": [{"filter": "datum.end"}],
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1, "clip": True},
            "encoding": {**both, "y": vertical, "shape": marks["shape"], "tooltip": tips},
        },
    ]
    return spec_of(rows, layers)


def _spread(x: np.ndarray) -> np.ndarray:
    """At most POINTS positions, half of them evenly spread and half evenly on a logarithmic axis."""
    if len(x) <= POINTS:
        return np.arange(len(x))
    places = np.geomspace(max(x[0], 1e-9), x[-1], POINTS // 2)
    return np.unique(
        np.concatenate([thin(len(x), POINTS // 2), np.searchsorted(x, places).clip(0, len(x) - 1)])
    )


def _marks(columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and shape of each model; the legend is above the panels."""
    domain = {"field": "model", "type": "nominal", "scale": {"domain": list(columns)}, "legend": None}
    return {"color": domain, "shape": domain}


def tips_of(**titles: str) -> Rows:
    return [
        {"field": name, "type": "nominal", "title": title} | _format(name) for name, title in titles.items()
    ]


def _format(name: str) -> dict[str, str]:
    return {"type": "quantitative", "format": ".4~g"} if name in ("x", "y", "raw", "pit") else {}


def _log(low: float, high: float) -> dict[str, Any]:
    """The scale and axis of a logarithmic channel, with few round numbers."""
    ends = [low, high if high > low else low * 2]
    axis = {"values": log_ticks(*ends), "format": "~g"}
    return {"scale": {"type": "log", "domain": ends, "nice": False}, "axis": axis}


def spec_of(rows: Rows, layers: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A specification as wide as its card; numbers get six digits, and null where they are not finite."""
    fit = {"type": "fit-x", "contains": "padding"}
    base: dict[str, Any] = {"data": {"values": [{k: _short(v) for k, v in row.items()} for row in rows]}}
    return {**base, "width": "container", "height": HEIGHT, "autosize": fit, "layer": layers, **more}


def _short(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
