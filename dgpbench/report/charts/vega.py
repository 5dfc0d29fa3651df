"""Panels as Vega-Lite specifications. Text from records appears in data and titles only."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from dgpbench.report.charts import Axis, Layer, Panel, Rows, log_ticks, quantity_lines

STEP = 24  # pixels between names
HEIGHT = 230
LONG = 30  # characters; a longer title of an axis with units has two lines
STYLES = ("accent", "bad", "ink", "band", "line", "bar", "guide", "soft", "inktext", "papertext")  # charts.js
NUMBERS = ("x", "y", "raw", "q05", "q50", "q95")  # fields of tooltips that are numbers
Spec = dict[str, Any]


def panel_html(panel: Panel) -> str:
    """Return a panel with its specification as inert data."""
    spec = json.dumps(spec_of(panel), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    name = escape(panel.title)
    return (
        f'<figure class="chart{" wide" if panel.wide else ""}"><figcaption>{name}</figcaption>'
        f'<div class="plot" role="img" aria-label="{name}"></div>'
        f'<script type="application/json">{spec}</script></figure>'
    )


def group(name: str, title: str, panels: Sequence[Panel], note: str = "", models: Sequence[str] = ()) -> str:
    """Return panels below one heading, with a legend if they do not name their models."""
    if not panels:
        return ""
    marks = "".join(f'<li data-mark="{i}">{escape(model)}</li>' for i, model in enumerate(models))
    legend = f'<ul class="legend">{marks}</ul>' if marks else ""
    about = f'<p class="notes">{escape(note)}</p>' if note else ""
    inside = "\n".join(map(panel_html, panels))
    heading = f'<div class="group" id="{escape(name)}"><h3>{escape(title)}</h3>{about}{legend}'
    return f'{heading}<div class="charts">{inside}</div></div>'


def spec_of(panel: Panel) -> Spec:
    """Return a specification as wide as its card; numbers have six digits, null if not finite."""
    spec: Spec = {
        "data": _data(panel.rows),
        "width": "container",
        "height": HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": [_layer(layer, panel) for layer in panel.layers],
    }
    if panel.y.names:
        spec["height"] = {"step": STEP + 8, "for": "position"} if panel.offset else {"step": STEP + 2}
    return spec


def _data(rows: Rows) -> Spec:
    return {"values": [{name: _short(value) for name, value in row.items()} for row in rows]}


def _short(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _layer(layer: Layer, panel: Panel) -> Spec:
    mark: Spec = {"type": layer.mark, "clip": True}
    if layer.style:
        mark["style"] = layer.style
    if layer.opacity < 1 or layer.mark == "point":
        mark["opacity"] = layer.opacity
    if layer.mark == "point":
        mark |= {"filled": not layer.hollow, "size": layer.size or 90}
    elif layer.size:
        mark["strokeWidth"] = layer.size
    encoding: Spec = {}
    for channel, axis, name, end in (("x", panel.x, layer.x, layer.x2), ("y", panel.y, layer.y, layer.y2)):
        if name:
            encoding[channel] = _channel(axis, name, channel, panel)
        if end:
            encoding[f"{channel}2"] = {"field": end}
    if panel.offset and layer.y:
        field, values = panel.offset
        encoding["yOffset"] = {"field": field, "type": "nominal", "scale": {"domain": list(values)}}
    if not layer.style and not layer.colour_by:
        by_model = {
            "field": "model",
            "type": "nominal",
            "scale": {"domain": list(panel.models)},
            "legend": None,
        }
        encoding |= {"color": by_model} | ({"shape": by_model} if layer.mark == "point" else {})
    if layer.by:
        encoding["detail"] = {"field": layer.by, "type": "nominal"}
    if layer.size_by:
        scale = {"range": [20, 300]}
        encoding["size"] = {"field": layer.size_by, "type": "quantitative", "scale": scale, "legend": None}
    if layer.colour_by:
        mark["cornerRadius"] = 3
        legend = {"title": panel.legend, "values": [0, 0.5, 1], "gradientLength": 180}
        encoding["color"] = {
            "field": layer.colour_by,
            "type": "quantitative",
            "scale": {"domain": [0, 1], "range": "heatmap"},
            "legend": legend if panel.legend else None,
        }
    if layer.mark == "text":
        mark |= {"fontSize": 11, "tooltip": None} | _text_place(layer)
        encoding["text"] = {"field": layer.text}
    if layer.tips:
        encoding["tooltip"] = [_tip(name, title) for name, title in layer.tips.items()]
    out: Spec = {"mark": mark, "encoding": encoding}
    if layer.rows is not None:
        out["data"] = _data(layer.rows)
    if layer.only:
        out["transform"] = [{"filter": f"datum.{layer.only}"}]
    return out


def _text_place(layer: Layer) -> Spec:
    if layer.least_width:
        return {"opacity": {"expr": f"width < {layer.least_width} ? 0 : 1"}}
    return (
        {"dy": -12}
        if layer.align == "above"
        else {"align": layer.align, "dx": 9 if layer.align == "left" else -9}
    )


def _tip(name: str, title: str) -> Spec:
    numeric = {"type": "quantitative", "format": ".4~g"} if name in NUMBERS else {"type": "nominal"}
    return {"field": name, "title": title} | numeric


def _channel(axis: Axis, name: str, channel: str, panel: Panel) -> Spec:
    if axis.names:
        shown: Spec = {"domain": False, "ticks": False} if panel.x.names and panel.y.names else {"grid": True}
        if channel == "x":
            shown["labelAngle"] = -35 if max(map(len, axis.names)) > 3 else 0
        scale: Spec = {"domain": list(axis.names)}
        return {"field": name, "type": "nominal", "scale": scale, "title": axis.title, "axis": shown}
    title = quantity_lines(axis.title) if len(axis.title) > LONG else []
    base: Spec = {"field": name, "type": "quantitative", "title": title if len(title) > 1 else axis.title}
    if axis.log:
        low, high = axis.ends or (1.0, 10.0)
        ends = [low, high if high > low else low * 2]
        ticks = {"values": log_ticks(*ends), "format": "~g"}
        return base | {"scale": {"type": "log", "domain": ends, "nice": False}, "axis": ticks}
    scale = {"zero": False} | ({"domain": list(axis.ends), "nice": False} if axis.ends else {})
    return base | {"scale": scale} | ({"axis": {"tickMinStep": 1}} if axis.whole else {})
