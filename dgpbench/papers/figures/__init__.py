"""The papers' figures from records, predictions and draws: each as a picture with the numbers behind it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import yaml

from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import Table, build
from dgpbench.report.charts import Nothing
from dgpbench.report.charts.picture import Picture, PictureSpec
from dgpbench.report.charts.table_charts import PICTURES
from dgpbench.report.charts.training_curves import trace_picture
from dgpbench.report.result_table import community_note
from dgpbench.store.filters import select
from dgpbench.store.scan import Unit

FILE = Path(__file__).resolve().parent / "figures.yaml"
KINDS = {
    "dots": "Mean and standard error",
    "traces": "Training curves",
    "density": "Posterior densities",
    "projection": "Predictive draws and test points",
    "marginals": "Posterior marginals, standardised",
    "ranks": "Average ranks",
    "frontier": "Accuracy against training seconds",
    "calibration": "Calibration",
    "four_kernels": "Draws from Gaussian processes with four kernels",
    "log_densities": "Log densities of likelihoods",
    "two_layers": "Draws of two layers",
    "gradients": "Ordinary and natural gradients",
    "surface": "Draws with a latent input",
    "prior": "One draw from the prior",
    "functions": "Draws of each layer's function",
    "collapse": "Output variance of a GP with a noisy input",
    "intensity": "Intensities of point processes",
    "kernel_draws": "Draws from two Gaussian processes",
    "exact": "Exact regression",
    "two_latents": "Variational approximations",
    "growing": "Growing numbers of inducing points",
    "departure": "VFE and FITC from the exact posterior",
    "augmented": "Two KL divergences",
    "budgets": "Hold-out metrics against training time",
    "boundaries": "Decision boundaries",
    "images": "Inducing images",
    "latent_means": "Mean images along a latent variable",
    "ranges": "Training curves in three ranges",
    "label_samples": "Images given their label",
    "alpha": "Ranks against alpha",
    "layers": "How much of each layer is used",
    "fidelities": "The highest fidelity, predicted",
    "sequences": "Sequences, aligned",
    "contours": "Class probabilities",
    "gains": "What sampling gains",
    "places": "Densities of places",
}
Painter = Callable[..., Picture]  # (spec, units or table)
MODULES = {  # of kinds that only papers have; the others are drawn by dgpbench.report.charts
    "approximation_figures": ("gradients", "augmented", "two_latents", "collapse"),
    "draw_figures": ("density", "projection", "marginals", "fidelities"),
    "fitted_figures": ("functions", "sequences", "boundaries", "contours", "places"),
    "image_figures": ("images", "latent_means", "label_samples"),
    "prior_figures": ("four_kernels", "kernel_draws", "log_densities", "two_layers", "surface", "prior"),
    "record_figures": ("alpha", "layers", "gains", "budgets", "ranges", "intensity"),
    "regression_figures": ("exact", "growing", "departure"),
}
FILES = {  # what a kind takes beside the record, which published records come without
    **dict.fromkeys(("density", "projection", "marginals", "fidelities"), "draws"),
    **dict.fromkeys(("functions", "boundaries", "images", "sequences", "contours", "places"), "parameters"),
    **dict.fromkeys(("latent_means", "label_samples"), "parameters"),
    "intensity": "rates",
}


@dataclass(frozen=True)
class FigureSpec(PictureSpec):
    """An entry of figures.yaml: what is drawn, and from which records."""

    table: str | None = None
    select: tuple[str, ...] = ()
    records: bool = True  # false: drawn from the model alone
    trials: int = 1  # runs of each experiment whose functions are drawn
    draws: int = 25  # of the functions of each run
    needs: str = ""  # what else to say where there are no records
    asked: bool = False  # drawn if asked for by name only: it trains, for up to some minutes
    lacks: str = ""  # why nothing is drawn: a diagram, a reprint, data that is not available
    same: str = ""  # the figure that is the same in another document

    @property
    def files(self) -> str:
        """What the figure takes of a run beside its record, or ''."""
        return FILES.get(self.kind, "")


@lru_cache(maxsize=1)
def figure_specs() -> dict[str, FigureSpec]:
    """Figures by name, in the order of their documents."""
    entries = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: FigureSpec(name, **fields) for name, fields in entries.items()}


def find(name: str) -> FigureSpec:
    """The figure of a name, or the one that it is the same as; UserError if there is none."""
    known = figure_specs()
    if name not in known:
        raise UserError(
            f"no figure '{name}'{did_you_mean(name, known)}; `dgpbench figures --list` lists them"
        )
    return known[known[name].same or name]


def painter(kind: str) -> Painter:
    """Return the function that makes the picture of a kind."""
    for module, kinds in MODULES.items():
        if kind in kinds:
            return getattr(importlib.import_module(f"dgpbench.papers.figures.{module}"), f"{kind}_picture")
    return trace_picture if kind == "traces" else PICTURES[kind]


def make(
    spec: FigureSpec,
    units: Sequence[Unit],
    words: Sequence[str] = (),
    tables: Mapping[str, Table] = MappingProxyType({}),
) -> Picture:
    """The picture of a figure from these records; raises Nothing, with the reason, if there is none.

    `words` choose among the records in place of the figure's own; `tables` are those built already.
    """
    if spec.lacks:
        raise Nothing(spec.lacks)
    paint = painter(spec.kind)
    if words:  # not the paper's figure any more, but one drawn like it
        spec = replace(spec, title=f"{KINDS[spec.kind]}: {' '.join(words)}", select=())
    if spec.table:
        if spec.table in tables and not words:
            return _of_table(paint, spec, tables[spec.table])
        chosen = select(units, words) if words else units
        return _of_table(paint, spec, build(specs.load(spec.table), Records(chosen)))
    if not spec.records:
        if words:
            raise Nothing(f"it takes no records, so that {' '.join(words)} chooses nothing")
        return paint(spec, [])
    chosen = [unit for unit in select(units, words or spec.select) if unit.record.done]
    if not chosen:
        also = f"; {spec.needs}" if spec.needs and not words else ""
        raise Nothing(f"no finished run with {' '.join(words or spec.select)}{also}")
    return paint(spec, chosen)


def _of_table(paint: Painter, spec: FigureSpec, table: Table) -> Picture:
    """The picture of a table; its notes name cells that hold records of others."""
    drawn = paint(spec, table)
    notes = [
        text.partition(": ")[2] for text in community_note(table.cells)
    ]  # nothing is marked in a picture
    return replace(drawn, notes=(*drawn.notes, *notes))
