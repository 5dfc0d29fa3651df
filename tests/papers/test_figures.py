"""The numbers behind the figures, and that the files are there and of their kind."""

import warnings

import numpy as np
import pandas as pd
import pytest
from report_units import record, unit, units

from dgpbench.cli import main
from dgpbench.data.letters import sections
from dgpbench.papers import figures, specs
from dgpbench.papers.figures import draw_figures
from dgpbench.papers.figures.draw_figures import kept_draws
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.report.charts import Nothing
from dgpbench.report.charts import rank_diagram as ranks
from dgpbench.report.charts import training_curves as traces
from dgpbench.report.charts.table_charts import dots_picture
from dgpbench.report.diagnostics import pit_curves
from dgpbench.store.scan import scan
from dgpbench.store.write import write_unit


def letters_run(results, overrides=(), split=0, rows=100, draws=2000, seed=0):
    """A run on the letters whose draws are those of the truth: uniform over the ink above x."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 2.5, rows)
    ink = sections(x)
    ink[ink[:, :, 1].max(1) == 0, 0] = (0.4, 0.6)  # between the letters
    length = ink[:, :, 1] - ink[:, :, 0]
    part = np.stack([rng.choice(3, draws + 1, p=line / line.sum()) for line in length])
    low, size = (np.take_along_axis(values, part, 1) for values in (ink[:, :, 0], length))
    y = low + size * rng.random((rows, draws + 1))
    table = {
        "row": np.arange(rows) + 1000,
        "output": np.zeros(rows, np.int16),
        "y": y[:, 0],
        "x": x[:, None],
        "draws": y[:, 1:].astype(np.float32),
    }
    made = record("dsvi2017_sgp", "dgp_letters", split, {"test_loglik": 0.0}, overrides=overrides)
    return write_unit(results, made, draws=table), table


def test_density_is_that_of_the_draws(tmp_path):
    _, table = letters_run(tmp_path)
    found, notes = kept_draws(scan(tmp_path))
    (run,) = found["dgp_letters"]
    assert notes == []
    edges = np.linspace(-0.5, 1.5, 41)
    x, _, values = draw_figures.density(run, edges)
    order = np.argsort(table["x"][:, 0])
    np.testing.assert_array_equal(x, table["x"][order, 0])
    inside = ((table["draws"][order[7]] >= edges[10]) & (table["draws"][order[7]] < edges[11])).mean()
    assert values[7, 10] == pytest.approx(inside / 0.05)
    np.testing.assert_allclose(values.sum(1) * 0.05, 1.0)  # all draws lie within these edges
    picture = figures.make(figures.find("5.4"), scan(tmp_path))
    total = (picture.data.density * (picture.data.y_high - picture.data.y_low)).groupby(picture.data.x).sum()
    assert len(total) == 100 and (total > 0.98).all() and (total < 1 + 1e-9).all()


def test_one_run_per_config_the_lowest_split_with_draws(tmp_path):
    letters_run(tmp_path, split=3, rows=5, draws=20)
    letters_run(tmp_path, split=1, rows=6, draws=20)
    letters_run(tmp_path, ["model.num_inducing=7"], rows=4, draws=20)
    (runs,) = kept_draws(scan(tmp_path))[0].values()
    assert [(run.unit.record["split"], len(run.y)) for run in runs] == [(1, 6), (0, 4)]
    assert [run.label for run in runs] == ["dsvi2017_sgp", "dsvi2017_sgp model.num_inducing=7"]


def test_reference_records_have_no_draws_and_the_message_says_so():
    with pytest.raises(Nothing, match="none of these runs has kept draws"):
        kept_draws(
            [type(u)(u.record, u.path.with_name("x.jsonl.gz")) for u in units("dsvi2017_sgp", "solar", [1.0])]
        )


def test_projection_is_that_of_scikit_learn():
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    y = x[:, 0] + rng.normal(size=50)
    mean, deviation, axes = draw_figures.components(x, y)
    points = np.column_stack([x, y])
    scaled = (points - points.mean(0)) / points.std(0)
    expected = PCA(2).fit_transform(scaled)
    ours = ((points - mean) / deviation) @ axes
    np.testing.assert_allclose(np.abs(ours), np.abs(expected), atol=1e-9)


def test_marginal_densities_are_those_of_scipys_kernel_estimate():
    from scipy.stats import gaussian_kde

    draws = np.random.default_rng(2).gamma(2.0, 3.0, (3, 400)) + 50
    found = draw_figures.standardised_densities(draws)
    for line, values in zip(draws, found, strict=True):
        z = (line - line.mean()) / line.std()
        factor = 1.06 * 400**-0.2 * np.sqrt(399 / 400)  # scipy scales by the deviation with n - 1
        np.testing.assert_allclose(values, gaussian_kde(z, factor)(draw_figures.GRID), rtol=1e-9)


def test_traces_by_method_and_panel():
    trace = [[1, 0.1, -10.0], [5, 0.5, -2.0]]
    training = {"trace": trace, "steps": 10, "cpu_seconds": 4.0}
    found = [
        unit("dsvi2017_sgp", d, s, {"test_loglik": 0.0}, training=training)
        for d in ("energy", "boston")
        for s in (0, 1)
    ]
    found += [
        unit(
            "dsvi2017_sgp_shared",
            "energy",
            0,
            {"test_loglik": 0.0},
            training={"trace": [[*line, size, -1.5] for line, size in zip(trace, (0.5, None), strict=True)]},
        )
    ]
    frame = traces.trace_frame(found, strip="dsvi2017_")
    assert set(frame.panel) == {"energy", "boston"} and set(frame.method) == {"sgp", "sgp_shared"}
    assert len(frame) == 10 and frame.step_size.dropna().tolist() == [0.5]
    assert frame.test_loglik.dropna().tolist() == [-1.5, -1.5]
    assert frame[frame.method == "sgp"].cpu_seconds.tolist() == [0.4, 2.0] * 4  # steps 1 and 5 of 10 in 4 s
    spec = figures.FigureSpec("3.2", "traces", "t", x="step", lower="step_size", strip="dsvi2017_")
    picture = traces.trace_picture(spec, found)
    assert picture.image()[:8] == b"\x89PNG\r\n\x1a\n" and len(picture.notes) == 1
    assert picture.data.bound.min() == -10.0
    assert "no step size" in traces.trace_picture(spec, found[:4]).notes[1]
    with pytest.raises(Nothing, match="no training trace"):
        traces.trace_picture(spec, units("dsvi2017_sgp", "energy", [1.0]))
    by_likelihood = traces.trace_frame(found, "experiment", "dsvi2017_")
    assert set(by_likelihood.panel) == {"sgp"} and set(by_likelihood.method) == {"", "shared"}


def test_groups_join_what_differs_by_less_than_the_critical_difference():
    assert ranks.groups([5.0, 4.6, 3.0, 2.9, 1.0], 1.0) == [(0, 1), (2, 3)]
    assert ranks.groups([3.0, 2.4, 1.8], 1.0) == [(0, 1), (1, 2)]
    assert ranks.groups([3.0, 2.0, 1.0], 5.0) == [(0, 2)]
    assert ranks.groups([3.0, 2.0, 1.0], 0.5) == []


def test_calibration_curve_cumulates_the_mean_histogram():
    histograms = [[0.2] + [0.8 / 9] * 9, [0.0] + [1 / 9] * 9]
    found = [
        unit("dsvi2017_sgp", "boston", s, {"test_loglik": 0.0}, details={"pit_histogram": h})
        for s, h in enumerate(histograms)
    ]
    frame = pit_curves(build(specs.load("S7"), Records(found)))
    assert frame.share.iloc[1] == pytest.approx(0.1) and frame.share.iloc[-1] == pytest.approx(1.0)
    assert list(frame.splits.unique()) == [2]


@pytest.mark.slow
def test_the_command_writes_png_pdf_and_the_data(tmp_path, capsys):
    results, out = tmp_path / "results", tmp_path / "figures"
    letters_run(results)
    from dgpbench.store.reference import export

    export(
        units("dsvi2017_sgp", "boston", [-2.0, -2.2], training={"seconds": 3.0}),
        results / "reference" / "x.jsonl.gz",
    )
    assert main(["figures", "-o", str(out), "--results", str(results)]) == 0
    printed = capsys.readouterr().out
    assert "3.3: not drawn, no finished run with experiment=natgrad_fixed*" in printed
    for name in ("2.4", "5.4", "frontier-S7"):
        png, pdf = ((out / f"figure-{name}.{kind}").read_bytes() for kind in ("png", "pdf"))
        assert png[:4] == b"\x89PNG" and pdf[:5] == b"%PDF-"
    dots = pd.read_csv(out / "figure-2.4.csv").set_index(["row", "column"])
    assert (
        dots["mean"]["boston", "SGP"] == pytest.approx(-2.1) and dots["published"]["boston", "SGP"] == -2.47
    )
    assert main(["figures", "3.3", "--results", str(results)]) == 2
    assert "figure 3.3 cannot be drawn: no finished run with" in capsys.readouterr().err
    assert main(["figures", "9.9"]) == 2
    assert main(["figures", "dataset=energy"]) == 2
    assert "name the figure" in capsys.readouterr().err.splitlines()[-1]


def test_images_repeat_and_dark_is_another(tmp_path):
    letters_run(tmp_path, rows=10, draws=50)
    picture = figures.make(figures.find("5.4"), scan(tmp_path))
    assert picture.image() == picture.image()
    assert picture.image(theme="dark") != picture.image()


def test_prior_draws_have_the_prior_covariance():
    """Covariances over many draws, in closed form for GP and LV-GP, by Monte Carlo for GP-GP."""
    from dgpbench.papers.figures import prior_figures as priors

    x = np.array([0.0, 0.0, 1.0])
    rng = np.random.RandomState(0)
    gp = np.stack([priors.prior_draw(["gp"], x, rng) for _ in range(20_000)])
    expected = np.exp(-0.5 * (x[:, None] - x[None]) ** 2)
    np.testing.assert_allclose(np.cov(gp.T), expected, atol=0.04)
    lv = np.stack([priors.prior_draw(["lv", "gp"], x, rng) for _ in range(20_000)])
    among = np.sqrt(1 / 3)  # E exp(-(w - w')^2 / 2) for w - w' ~ N(0, 2)
    expected = np.where(np.eye(3, dtype=bool), 1.0, among * expected)
    np.testing.assert_allclose(np.cov(lv.T), expected, atol=0.04)
    deep = np.stack([priors.prior_draw(["gp", "gp"], x, rng) for _ in range(20_000)])
    np.testing.assert_allclose(deep[:, 0], deep[:, 1], atol=1e-2)  # without latents: a function of x
    gap = x[2] + np.sqrt(2 - 2 * np.exp(-0.5)) * rng.randn(400_000)  # h(1) - h(0) = 1 + g(1) - g(0)
    assert np.cov(deep.T)[0, 2] == pytest.approx(np.exp(-0.5 * gap**2).mean(), abs=0.04)


@pytest.mark.parametrize("found", [[], ["boston"]], ids=["no record", "one set"])
def test_tables_with_nothing_of_ours_warn_of_nothing(found):
    records = Records([u for name in found for u in units("dsvi2017_sgp", name, [-2.0])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = dots_picture(figures.find("2.4"), build(specs.load("S7"), records))
        assert picture.image()[:4] == b"\x89PNG" and picture.data["mean"].notna().sum() == len(found)


def test_ranks_are_drawn_with_the_best_first_and_without_a_bar_below_five_sets():
    found = []
    for dataset in ("boston", "energy"):
        found += units("dsvi2017_sgp", dataset, [-2.0]) + units("dsvi2017_dgp2", dataset, [-1.0])
    table = build(specs.load("S7"), Records(found))
    picture = ranks.rank_picture(figures.find("ranks-S7"), table)
    assert picture.data.model.tolist() == ["DGP 2", "SGP"] and picture.data["mean"].tolist() == [1.0, 2.0]
    assert "no critical difference below 5 datasets" in picture.notes[0] and picture.image()[:4] == b"\x89PNG"


def test_a_figure_of_other_records_is_not_titled_after_the_paper(tmp_path):
    letters_run(tmp_path, rows=10, draws=50)
    picture = figures.make(figures.find("5.4"), scan(tmp_path), ["model=sgp"])
    assert picture.title == "Posterior densities: model=sgp"
