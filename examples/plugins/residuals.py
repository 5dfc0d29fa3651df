"""Two figures: residuals of a run (`plot --kind residuals`) and gains by split (`compare --plot gains`)."""

from dgpbench.report.charts import Axis, Layer, Nothing, Panel
from dgpbench.report.charts.picture import panels_picture
from dgpbench.report.charts.run_charts import run_figure
from dgpbench.report.comparison.methods import comparison_figure


@run_figure("residuals")
def residuals(run):
    """Observed minus predicted over predicted, of runs with predictions of numbers."""
    table = run.predictions
    if "mean" not in table:
        return []
    pairs = zip(table["mean"], table["y"] - table["mean"], strict=True)
    rows = [{"x": float(mean), "y": float(gap)} for mean, gap in pairs]
    layers = (
        Layer("rule", x="", rows=[{"y": 0.0}], style="guide"),
        Layer("point", style="accent", size=18, tips={"x": "predicted", "y": "residual"}),
    )
    return [Panel("Residuals", rows, Axis("predicted mean"), Axis("observed minus predicted"), layers)]


@comparison_figure("gains", "{}: difference from the first column")
def gains(spec, comparison):
    """One panel per dataset: the value of each column minus that of the first, by split."""
    import pandas as pd

    table, (first, *others) = comparison.table, comparison.table.spec.columns
    panels = []
    for dataset in table.spec.rows:
        base = table.cells[dataset, first].values
        rows = [
            {"model": column, "x": split, "y": value - base[split]}
            for column in others
            for split, value in table.cells[dataset, column].values.items()
            if split in base
        ]
        if rows:
            layers = (Layer("rule", x="", rows=[{"y": 0.0}], style="guide"), Layer("point"))
            axes = Axis("split", whole=True), Axis("difference")
            panels.append(Panel(dataset, rows, *axes, layers, tuple(others)))
    if not panels:
        raise Nothing("no two columns have a split in common")
    data = pd.DataFrame([{"dataset": panel.title, **row} for panel in panels for row in panel.rows])
    return panels_picture(spec.name, spec.title, panels, data)
