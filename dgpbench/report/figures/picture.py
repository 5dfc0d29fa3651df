"""A picture: how to paint it, the numbers behind it, and its files. Drawn light or dark, without a screen."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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


class Nothing(Exception):
    """There is nothing to draw; the message says why."""


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


def legends_of(places: Iterable[Any]) -> dict[str, Any]:
    """Handles by label of several panels, each label once."""
    return {
        label: handle
        for place in places
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
    }


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
