"""Pictures by matplotlib: how to paint them, the numbers behind them, and their files; panels as pictures."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dgpbench.report.charts import Axis, Layer, Panel, Rows, log_ticks
from dgpbench.report.output_files import put

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#332288", "#555555")
DARK_COLOURS = ("#3a86c8", "#f5813f", "#2fc79a", "#e39bc3", "#f0b429", "#56b4e9", "#7d5fff", "#e6e6e6")
MARKERS = "osD^vPX*h"  # one more than colours, so that the first 72 models all look different
LETTER, BESIDE = 0.07, 0.55  # inches of a letter of a legend, and of what stands beside its words
THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1f2328", "faint": "#d8dee4", "colours": COLOURS},
    "dark": {"paper": "#15191f", "ink": "#e6edf3", "faint": "#343b44", "colours": DARK_COLOURS},
}


@dataclass(frozen=True)
class PictureSpec:
    """What a picture is called, and what curves are drawn over and grouped by."""

    name: str
    kind: str = ""  # '' where nothing is drawn
    title: str = ""
    x: str = "seconds"
    lower: str | None = None  # a second row of panels: step_size | test log-likelihood
    panel: str = "dataset"
    strip: str = ""  # what the names of a figure's experiments share in front of that of the method


@dataclass(frozen=True)
class Picture:
    """Something to draw, in any of the formats and themes."""

    name: str
    title: str
    data: pd.DataFrame  # what is drawn, as numbers
    paint: Callable  # (matplotlib figure, theme) -> None
    size: tuple[float, float]  # inches
    notes: tuple[str, ...] = ()

    def image(self, kind: str = "png", theme: str = "light", dpi: int = 150) -> bytes:
        """The picture in a file format of matplotlib."""
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        colours = THEMES[theme]
        with matplotlib.rc_context(_style(colours)):
            figure = Figure(figsize=self.size, layout="constrained")
            FigureCanvasAgg(figure)
            self.paint(figure, colours)
            title = textwrap.fill(self.title, int(11 * self.size[0]))
            figure.suptitle(title, fontsize=11, x=0.01, ha="left")
            _take_literally(figure)
            buffer = io.BytesIO()
            stamp = {"CreationDate": None} if kind == "pdf" else {"Software": None}
            figure.savefig(buffer, format=kind, dpi=dpi, metadata=stamp)
        return buffer.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """PNG, PDF and the data as CSV; returns the files."""
        folder.mkdir(parents=True, exist_ok=True)
        contents = {kind: self.image(kind) for kind in ("png", "pdf")}
        contents["csv"] = self.data.to_csv(index=False, lineterminator="\n").encode()
        return [put(folder / f"figure-{self.name}.{kind}", content) for kind, content in contents.items()]


def _take_literally(figure) -> None:
    """A dollar sign in a name is no formula. (Numbers along the axes are set as formulas when drawn.)"""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if "$" in text.get_text() and "mathdefault" not in text.get_text():
            text.set_parse_math(False)


def style_of(number: int, theme: dict) -> tuple[str, str]:
    """Return the colour and the marker of a model by its number."""
    return theme["colours"][number % len(theme["colours"])], MARKERS[number % len(MARKERS)]


def columns_for(count: int, most: int) -> int:
    """How many panels stand side by side: as many rows as `most` needs, filled evenly."""
    return math.ceil(count / math.ceil(count / most)) if count else 1


def panels(figure, rows: int, columns: int, **fields):
    """A grid of axes that is always two-dimensional."""
    return figure.subplots(rows, columns, squeeze=False, **fields)


def panel_each(figure, subjects: Sequence[T], columns: int, **fields) -> list[tuple[Any, T]]:
    """Axes for each subject, side by side in so many columns, with the subject; other axes are not shown."""
    axes = panels(figure, math.ceil(len(subjects) / columns), columns, **fields)
    for place in axes.flat[len(subjects) :]:
        place.set_visible(False)
    return list(zip(axes.flat, subjects, strict=False))


def side_label(figure, text: str) -> None:
    """A label on the left of all panels, in lines that fit the picture's height."""
    figure.supylabel(textwrap.fill(text, int(14 * figure.get_size_inches()[1])), fontsize=8)


def legend_below(figure, handles, labels) -> None:
    """A legend below all panels, in as many columns as the names leave room for; long names in lines."""
    width = figure.get_size_inches()[0]
    labels = [textwrap.fill(label, int((width - BESIDE) / LETTER)) for label in labels]
    if labels:
        each = LETTER * max(len(line) for label in labels for line in label.splitlines()) + BESIDE
        columns = max(1, min(len(labels), int(width / each)))
        figure.legend(list(handles), labels, loc="outside lower center", ncols=columns)


def _style(theme: dict) -> dict:
    ink, paper = theme["ink"], theme["paper"]
    return {
        "figure.facecolor": paper,
        "savefig.facecolor": paper,
        "axes.facecolor": paper,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.edgecolor": ink,
        "xtick.color": ink,
        "ytick.color": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": theme["faint"],
        "font.size": 8,
        "axes.titlesize": 9,
        "legend.frameon": False,
        "pdf.fonttype": 42,
    }


def plain_log_ticks(axis, low: float, high: float) -> None:
    """Label a logarithmic axis that is drawn from `low` to `high` with few plain numbers."""
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    axis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


LINE_STYLES: dict[str, dict[str, Any]] = {  # of vega.STYLES; numbers are colours of the theme
    "accent": {"color": 0},
    "bad": {"color": 1},
    "ink": {"color": "ink"},
    "soft": {"color": "ink", "alpha": 0.6},
    "band": {"color": 0, "alpha": 0.22},
    "line": {"color": 0, "lw": 1.2},
    "bar": {"color": 0, "alpha": 0.7},
    "guide": {"color": "faint", "lw": 1.5, "zorder": 0},
    "inktext": {"color": "ink"},
    "papertext": {"color": "paper"},
}
OFFSET = 0.32  # between values below each other at a name


def panels_picture(
    name: str,
    title: str,
    panels_: Sequence[Panel],
    data: pd.DataFrame,
    notes: Sequence[str] = (),
    columns: int = 4,
    size: tuple[float, float] = (3.0, 2.4),
) -> Picture:
    """Return the picture of some panels of `size` inches, with a legend if they do not name their models."""
    wide = columns_for(len(panels_), columns)
    high = math.ceil(len(panels_) / wide)
    first = panels_[0]
    named = bool(first.y.names or first.x.names)
    seen = {row.get("model") for panel in panels_ for row in panel.rows}
    models = [(i, model) for i, model in enumerate(first.models) if model in seen]

    def paint(figure, theme):
        from matplotlib.lines import Line2D

        drawn = panel_each(figure, panels_, wide)
        for place, panel in drawn:
            draw_panel(place, panel, theme)
        if len(panels_) > 1 and len({panel.y.title for panel in panels_}) == 1 and not named:
            side_label(figure, first.y.title)
            for place, _ in drawn:
                place.set_ylabel("")
        if len(panels_) > 1 and len({panel.x.title for panel in panels_}) == 1 and named:
            figure.supxlabel(first.x.title, fontsize=8)
            for place, _ in drawn:
                place.set_xlabel("")
        if models and not named:
            looks = [style_of(i, theme) for i, _ in models]
            handles = [Line2D([], [], marker=m, ms=4, lw=1, color=c) for c, m in looks]
            legend_below(figure, handles, [model for _, model in models])

    legend = 0.4 if models and not named else 0.0
    return Picture(
        name, title, data, paint, (size[0] * wide + 0.6, size[1] * high + 0.5 + legend), tuple(notes)
    )


def draw_panel(axes, panel: Panel, theme: dict) -> None:
    """Draw a panel on matplotlib axes."""
    for layer in panel.layers:
        rows = panel.rows if layer.rows is None else layer.rows
        if layer.only:
            rows = [row for row in rows if row.get(layer.only)]
        groups: dict[tuple, Rows] = {}
        for row in rows:
            groups.setdefault((row.get("model"), row.get(layer.by)), []).append(row)
        for (model, _), group in groups.items():
            number = panel.models.index(model) if not layer.style and model in panel.models else 0
            colour, marker = style_of(number, theme)
            look = {"color": colour, **LINE_STYLES.get(layer.style, {})}
            if isinstance(look["color"], int):
                look["color"] = theme["colours"][look["color"]]
            look["color"] = theme.get(look["color"], look["color"])
            look["alpha"] = layer.opacity * look.get("alpha", 1.0)
            _draw(axes, layer, panel, group, look, "o" if layer.style else marker, theme)
    axes.set_title(panel.title, loc="left")
    for way, axis in (("x", panel.x), ("y", panel.y)):
        _set_axis(axes, way, axis)


def _set_axis(axes, way: str, axis: Axis) -> None:
    if not (axis.names and way == "y"):
        getattr(axes, f"set_{way}label")(axis.title)
    own = getattr(axes, f"{way}axis")
    if axis.names:
        shown = [name.replace("$", r"\$") for name in axis.names]
        getattr(axes, f"set_{way}ticks")(range(len(shown)), shown, rotation=45 if way == "x" else 0)
        ends = -0.5, len(shown) - 0.5
        getattr(axes, f"set_{way}lim")(ends[::-1] if way == "y" else ends)
        own.set_tick_params(length=0)
        axes.set_axisbelow(True)
        axes.grid(axis=way, lw=0.4)
        return
    if axis.log:
        getattr(axes, f"set_{way}scale")("log")
    if axis.ends:
        getattr(axes, f"set_{way}lim")(*axis.ends)
    if axis.log:
        plain_log_ticks(own, *getattr(axes, f"get_{way}lim")())
    else:
        axes.locator_params(axis=way, nbins=5, integer=axis.whole)


def _draw(
    axes, layer: Layer, panel: Panel, rows: Rows, look: dict[str, Any], marker: str, theme: dict
) -> None:
    def places(name: str, axis: Axis) -> list[float]:
        if not axis.names:
            return [math.nan if row[name] is None else row[name] for row in rows]
        below = [0.0] * len(rows)
        if panel.offset and name:
            field, values = panel.offset
            below = [OFFSET * (values.index(row[field]) - (len(values) - 1) / 2) for row in rows]
        return [axis.names.index(row[name]) + shift for row, shift in zip(rows, below, strict=True)]

    x, y = (places(name, axis) if name else [] for name, axis in ((layer.x, panel.x), (layer.y, panel.y)))
    if layer.mark == "line":
        order = sorted(range(len(rows)), key=lambda i: x[i])
        line = {"lw": 0.75 * layer.size or 1.2, **look}
        axes.plot([x[i] for i in order], [y[i] for i in order], **line)
    elif layer.mark == "area":
        order = sorted(range(len(rows)), key=lambda i: x[i])
        upper = places(layer.y2, panel.y)
        axes.fill_between(
            [x[i] for i in order], [y[i] for i in order], [upper[i] for i in order], lw=0, **look
        )
    elif layer.mark == "rule" and not (x and y):
        for value in x or y:
            (axes.axvline if x else axes.axhline)(value, **{"lw": 1.0, **look})
    elif layer.mark == "rule":
        line = {"lw": 0.75 * layer.size or 1.0, **look}
        if layer.x2:
            axes.hlines(y, x, places(layer.x2, panel.x), **line)
        else:
            axes.vlines(x, y, places(layer.y2, panel.y), **line)
    elif layer.mark == "point":
        areas = [layer.size / 4 if layer.size else 16.0] * len(rows)
        if layer.size_by:
            most = max(row[layer.size_by] for row in rows)
            areas = [6 + 90 * row[layer.size_by] / most for row in rows]
        inside = theme["paper"] if layer.hollow else look["color"]
        edge = {"edgecolors": look["color"], "facecolors": inside, "linewidths": 0.8 if layer.hollow else 0}
        axes.scatter(x, y, areas, marker=marker, alpha=look["alpha"], zorder=3, **edge)
    elif layer.mark == "rect":
        _rectangles(axes, layer, rows, (x, y), look, theme)
    else:
        shift = {"left": (6, 0), "right": (-6, 0), "above": (0, 6)}[layer.align]
        centred = layer.align == "above" or layer.least_width
        where = {
            "ha": "center" if centred else layer.align,
            "va": "bottom" if layer.align == "above" else "center",
        }
        for row, place in zip(rows, zip(x, y, strict=True), strict=True):
            offset = (0, 0) if layer.least_width else shift
            text = str(row[layer.text])
            axes.annotate(
                text, place, offset, textcoords="offset points", color=look["color"], fontsize=7, **where
            )


def _rectangles(axes, layer: Layer, rows: Rows, places, look: dict[str, Any], theme: dict) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    shades = LinearSegmentedColormap.from_list("shades", [theme["colours"][0], theme["faint"]])
    for row, x, y in zip(rows, *places, strict=True):
        if layer.colour_by:
            axes.add_patch(
                Rectangle((x - 0.5, y - 0.5), 1, 1, color=shades(float(row[layer.colour_by])), lw=0)
            )
        else:
            size = row[layer.x2] - x, row[layer.y2] - y
            axes.add_patch(Rectangle((x, y), *size, lw=0, **look))
    axes.autoscale_view()
