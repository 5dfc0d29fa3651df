"""Charts of one run for its page: predicted against observed, intervals, PIT, classes, training curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.report.figures.traces import trace_frame
from dgpbench.report.page.charts import Chart, Rows, spec_of, tips_of, training
from dgpbench.report.run_files import draws_over_x, predictions_of
from dgpbench.report.runs.panels import bands, by_mean, filled, pit_shares, recorded_pit, thin
from dgpbench.store.scan import Unit

MOST_POINTS, MOST_INTERVALS, MOST_CLASSES, MOST_PLACES = 500, 120, 12, 300
Layers = list[dict[str, Any]]


def charts(unit: Unit) -> tuple[list[Chart], str]:
    """Return charts of what was kept of a run, and why others are missing."""
    record = unit.record
    columns, why = predictions_of(unit) if record["status"] == "done" else ({}, "")
    why = why.replace(f"{unit.folder}/", "")  # a page may be passed on
    found = _over_x(unit)
    if "mean" in columns:
        found.append(_predicted(columns))
    if "q05" in columns:
        found.append(_intervals(columns))
    if "predicted" in columns:
        found.append(_classes(columns["y"], columns["predicted"]))
    shares = pit_shares(columns["pit"]) if "pit" in columns else recorded_pit(record)
    if shares is not None:
        found.append(_pit(shares))
    if bins := record["details"].get("reliability"):
        found.append(_reliability(bins))
    return [*found, *_curve(unit)], why


def _over_x(unit: Unit) -> list[Chart]:
    """Bands of the kept draws over x, where there is one input."""
    kept = draws_over_x(unit)
    if kept is None:
        return []
    x, y, draws = kept
    order, q = bands(x, draws)
    chosen = thin(len(order), MOST_PLACES)
    names = ("q05", "q25", "q50", "q75", "q95")
    rows: Rows = [
        {"x": float(x[order][i]), "y": float(y[order][i])}
        | {n: float(v[i]) for n, v in zip(names, q, strict=True)}
        for i in chosen
    ]
    at = _axis("x", "x")
    layers: Layers = [
        {
            "mark": {"type": "area", "style": "band"},
            "encoding": {"x": at, "y": _axis(low, "y"), "y2": {"field": high}},
        }
        for low, high in (("q05", "q95"), ("q25", "q75"))
    ]
    tips = tips_of(x="x", y="observed", q50="median", q05="5 %", q95="95 %")
    layers += [
        {"mark": {"type": "line", "style": "line"}, "encoding": {"x": at, "y": _axis("q50", "y")}},
        {
            "mark": {"type": "point", "style": "bad", "filled": True, "size": 14},
            "encoding": {"x": at, "y": _axis("y", "y"), "tooltip": tips},
        },
    ]
    return [Chart("90 % and 50 % bands over x", spec_of(rows, layers))]


def _predicted(columns: dict[str, np.ndarray]) -> Chart:
    kept = thin(len(columns["y"]), MOST_POINTS)
    mean, y = columns["mean"][kept], columns["y"][kept]
    rows: Rows = [{"x": float(a), "y": float(b)} for a, b in zip(mean, y, strict=True)]
    both = np.concatenate([mean, y])
    ends = [{"x": float(v), "y": float(v)} for v in (both.min(), both.max())]
    x, at = _axis("x", "predicted mean"), _axis("y", "observed")
    dot = {"type": "point", "style": "accent", "filled": True, "size": 18, "opacity": 0.6}
    layers: Layers = [
        {"data": {"values": ends}, "mark": {"type": "line", "style": "guide"}, "encoding": {"x": x, "y": at}},
        {"mark": dot, "encoding": {"x": x, "y": at, "tooltip": tips_of(x="predicted", y="observed")}},
    ]
    return Chart("Predicted and observed", spec_of(rows, layers))


def _intervals(columns: dict[str, np.ndarray]) -> Chart:
    y = columns["y"]
    inside, order = by_mean(columns, MOST_INTERVALS)
    names = ("q05", "q25", "q75", "q95", "y")
    rows: Rows = [
        {"row": i, "inside": "inside" if inside[at] else "outside"}
        | {n: float(columns[n][at]) for n in names}
        for i, at in enumerate(order)
    ]
    title = f"90 % and 50 % intervals: {100 * inside.mean():.0f} % of {len(y):,} inside 90 %"
    x = _axis("row", "test rows by predicted mean", scale={"domain": [-1, len(order)], "nice": False})
    layers: Layers = [
        {
            "mark": {"type": "rule", "style": "accent", "strokeWidth": size, "opacity": 0.5},
            "encoding": {"x": x, "y": _axis(low, "y"), "y2": {"field": high}},
        }
        for low, high, size in (("q05", "q95", 1), ("q25", "q75", 3))
    ]
    tips = tips_of(y="observed", q05="5 %", q95="95 %", inside="90 % interval")
    for style, part in (("ink", "inside"), ("bad", "outside")):
        dot = {"type": "point", "style": style, "filled": True, "size": 14, "opacity": 1}
        chosen = {"filter": f"datum.inside === '{part}'"}
        layers.append(
            {"transform": [chosen], "mark": dot, "encoding": {"x": x, "y": _axis("y", "y"), "tooltip": tips}}
        )
    return Chart(title, spec_of(rows, layers))


def _pit(shares: np.ndarray) -> Chart:
    edges = np.linspace(0, 1, len(shares) + 1)
    rows: Rows = [
        {"from": float(a), "to": float(b), "y": float(s * len(shares)), "zero": 0.0}
        for a, b, s in zip(edges, edges[1:], shares, strict=False)
    ]
    x = _axis("from", "PIT", scale={"domain": [0, 1]})
    layers: Layers = [
        {
            "mark": {"type": "rect", "style": "bar"},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": _axis("y", "density (1 is calibrated)"),
                "y2": {"field": "zero"},
                "tooltip": tips_of(y="density"),
            },
        },
        {"mark": {"type": "rule", "style": "bad"}, "encoding": {"y": {"datum": 1, "type": "quantitative"}}},
    ]
    return Chart("PIT: flat if calibrated", spec_of(rows, layers))


def _classes(y: np.ndarray, chosen: np.ndarray) -> Chart:
    """Share of each class that was predicted right, with the rows it has."""
    present = np.unique(y)[:MOST_CLASSES]
    rows: Rows = [
        {"class": str(c), "y": float((chosen[y == c] == c).mean()), "rows": int((y == c).sum())}
        for c in present
    ]
    title = f"Share predicted right, by class: {100 * (y == chosen).mean():.1f} % of {len(y):,}"
    x = {"field": "class", "type": "nominal", "sort": None, "title": "class", "axis": {"labelAngle": 0}}
    share = _axis("y", "share predicted right", scale={"domain": [0, 1]})
    tips = tips_of(**{"class": "class", "y": "share", "rows": "rows"})
    layers: Layers = [
        {"mark": {"type": "bar", "style": "bar"}, "encoding": {"x": x, "y": share, "tooltip": tips}}
    ]
    return Chart(title, spec_of(rows, layers))


def _reliability(bins: dict[str, list]) -> Chart:
    confidence, accuracy, count = filled(bins)
    rows: Rows = [
        {"x": float(a), "y": float(b), "rows": int(n)}
        for a, b, n in zip(confidence, accuracy, count, strict=True)
    ]
    low = float(min(confidence.min(), accuracy.min()))
    ends = [{"x": v, "y": v} for v in (low, 1.0)]
    x, y = _axis("x", "confidence"), _axis("y", "accuracy")
    size = {"field": "rows", "type": "quantitative", "scale": {"range": [20, 300]}, "legend": None}
    tips = tips_of(x="confidence", y="accuracy", rows="rows")
    layers: Layers = [
        {"data": {"values": ends}, "mark": {"type": "line", "style": "guide"}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "line", "style": "line"}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "style": "accent", "filled": True, "opacity": 0.8},
            "encoding": {"x": x, "y": y, "size": size, "tooltip": tips},
        },
    ]
    return Chart("Reliability: area is the number of rows", spec_of(rows, layers))


def _curve(unit: Unit) -> list[Chart]:
    """The training curve: by seconds, or by steps where seconds are not known."""
    data = trace_frame([unit])
    data["panel"] = f"Training: {int(data.step.max()):,} steps" if len(data) else ""
    x = "seconds" if data.seconds.notna().all() and (data.seconds > 0).sum() > 1 else "step"
    return training(data, list(dict.fromkeys(data.method)), x)


def _axis(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False}, **more}
