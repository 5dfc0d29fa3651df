"""All numbers of a dataset in one unit."""

import math

import pytest
from report_units import units

from dgpbench.cli import main
from dgpbench.report.dataset import everything, known
from dgpbench.report.published import lines


def grids(name, found=()):
    return {grid.name: grid for grid in everything(name, found)}


def test_kin8nm_in_original_units_best_first():
    own = units("dsvi2017_dgp2", "kin8nm", [1.30, 1.32, 1.34])
    shown = grids("kin8nm", own)
    data = shown["kin8nm-log-likelihood"].data
    assert list(data.value) == sorted(data.value, reverse=True)
    ours = data[data.source == "ours: dsvi2017_dgp2"].iloc[0]
    assert (ours.value, ours.runs) == (pytest.approx(1.32), 3)
    assert ours.error == pytest.approx(0.02 / math.sqrt(3))
    find = lambda source, model: data[(data.source == source) & (data.model == model)].value.item()  # noqa: E731
    assert find("salimbeni2017dsvi S7", "dgp2 vi") == 1.34
    assert find("lindinger2020star 1", "dgp2 vi-mf") == 1.30
    assert find("gpflux_repo_runs runs-json", "dgp2 vi") == pytest.approx(1.29, abs=0.005)
    assert find("ortega2022deepvip_runs DGP_UCI.csv", "dgp2 vi") == pytest.approx(1.29, abs=0.005)
    printed = sum(line.dataset == "kin8nm" and line.metric in ("nlpp", "test_loglik") for line in lines())
    assert len(data) == printed + 1
    errors = shown["kin8nm-RMSE"].data
    assert list(errors.value) == sorted(errors.value)
    wanted = ("gpflux_repo_runs", "kin8nm", "test_mse")
    squared = next(line for line in lines() if (line.source, line.dataset, line.metric) == wanted)
    both = errors[(errors.source == "gpflux_repo_runs runs-json") & (errors.model == f"{squared.model} vi")]
    assert both.value.max() / both.value.min() == pytest.approx(
        1, abs=0.01
    )  # a root of an MSE beside an RMSE
    assert both.value.min() == pytest.approx(math.sqrt(squared.value) * math.exp(-1.333), rel=0.01)


def test_names_of_publications_and_of_the_catalogue_are_one():
    assert grids("wine_red").keys() == grids("winered").keys()
    assert known("wine_red") and known("sarcos") and known("airfoil") and not known("nothing")
    data = grids("sarcos")["sarcos-log-likelihood"].data  # no deviation known: as it stands
    assert set(data.remark) == {"standardised units"}


def test_views_of_tables_are_refused_for_datasets(capsys):
    assert main(["tables", "kin8nm", "--compare"]) == 2
    error = capsys.readouterr().err
    assert "--compare is for tables, and kin8nm is a dataset" in error
