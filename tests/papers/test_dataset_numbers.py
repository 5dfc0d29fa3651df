"""All numbers of a dataset in one unit."""

import math

import pytest
from report_units import unit, units

from dgpbench.cli import main
from dgpbench.papers.dataset_numbers import dataset_grids, is_dataset
from dgpbench.papers.published import catalogue_name, lines, protocols


def grids(name, found=()):
    return {grid.name: grid for grid in dataset_grids(name, found)}


def doubtful(data):
    return (data.confidence == "ocr-doubtful") | data.remark.str.contains("treat with suspicion")


def test_kin8nm_in_original_units_best_first():
    own = units("dsvi2017_dgp2", "kin8nm", [1.30, 1.32, 1.34])
    shown = grids("kin8nm", own)
    data = shown["kin8nm-log-likelihood"].data
    sure = data[~doubtful(data)]
    assert list(sure.value) == sorted(sure.value, reverse=True) and len(sure) > 100
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
    sure = errors[~doubtful(errors)]
    assert list(sure.value) == sorted(sure.value) and len(sure) > 50
    squared = {
        line.model: line.value
        for line in lines()
        if (line.source, line.dataset, line.metric) == ("gpflux_repo_runs", "kin8nm", "test_mse")
    }
    rooted = errors[errors.source == "gpflux_repo_runs runs-json"]  # printed as RMSE and as MSE: shown once
    assert sorted(rooted.model) == [f"{model} vi" for model in sorted(squared)]
    for model, value in squared.items():
        shown_once = rooted[rooted.model == f"{model} vi"].value.item()
        assert shown_once == pytest.approx(math.sqrt(value) * math.exp(-1.333), rel=0.01)


def test_crps_and_auc_have_lists_in_their_own_units():
    own = units("dsvi2017_dgp2", "kin8nm", [0.03, 0.05], metric="test_crps")
    data = grids("kin8nm", own)["kin8nm-CRPS"].data
    assert list(data.value) == sorted(data.value) and data.value.iloc[0] == pytest.approx(0.0355, abs=1e-4)
    assert data[data.source == "ours: dsvi2017_dgp2"].value.item() == pytest.approx(0.04)
    printed = [line for line in lines() if (line.dataset, line.metric) == ("kin8nm", "crps")]
    assert len(data) == len(printed) + 1
    pol = grids("pol")["pol-CRPS"].data  # printed in standardised units: 0.040 deviations of the targets
    assert pol[pol.model == "ppgpr ppgpr"].value.item() == pytest.approx(0.040 * 41.72, rel=1e-3)
    areas = grids("higgs")["higgs-AUC"].data
    assert set(areas.units) == {"area under the ROC curve, probabilities of classes"}
    assert areas.value.iloc[0] == 0.885 and areas.model.iloc[0] == "dnn"


def test_names_of_publications_and_of_the_catalogue_are_one():
    assert grids("wine_red").keys() == grids("winered").keys()
    assert (
        is_dataset("wine_red")
        and is_dataset("sarcos")
        and is_dataset("airfoil")
        and not is_dataset("nothing")
    )
    data = grids("sarcos")["sarcos-log-likelihood"].data  # no deviation known: as it stands
    assert set(data.units) == {"nat per test point, standardised units"}


def test_numbers_of_another_unit_have_a_list_of_their_own():
    """The deviation of song's targets is not known: standardised numbers do not stand among the others."""
    shown = grids("year")
    original, scaled = shown["song-log-likelihood"], shown["song-log-likelihood-standardised"]
    assert original.title == "song: every log-likelihood, published and ours: original units"
    assert scaled.title == "song: every log-likelihood, published and ours: standardised units"
    assert "the deviation of the targets is not known" in " ".join(scaled.notes)
    assert "the deviation of the targets is not known" not in " ".join(original.notes)
    assert not set(original.data.protocol) & {"dspp", "ppgpr", "iwvi"}
    assert set(scaled.data.protocol) == {"dspp", "ppgpr", "iwvi"}
    assert (scaled.data.value.max(), scaled.data.value.min()) == (-0.67, -1.19)
    assert list(shown) == [
        "song-log-likelihood",
        "song-log-likelihood-standardised",
        "song-RMSE",
        "song-RMSE-standardised",
        "song-CRPS",
        "song-CRPS-standardised",
    ]
    images = grids("mnist")["mnist-log-likelihood-image"].data
    assert set(images.units) == {"nat per image"} and set(images.protocol) == {"cde-mnist"}
    (pixels,) = grids("omniglot").values()
    assert pixels.title == "omniglot: every log-likelihood, published and ours: nat per pixel"
    assert list(pixels.data.value) == [0.072] and set(pixels.data.units) == {"nat per pixel"}
    (ones,) = grids("mnist-ones").values()
    assert ones.title == "mnist-ones: every log-likelihood, published and ours: units not stated"
    assert set(grids("bike")["bike-RMSE-unknown"].data.protocol) == {"diffwgp-bike"}


def test_what_is_not_known_to_be_standardised_is_not_mapped_back():
    shown = grids("kin8nm")
    assert "bsgp-rmse" not in set(shown["kin8nm-RMSE"].data.protocol)
    apart = shown["kin8nm-RMSE-normalised"].data
    assert apart[(apart.model == "dgp2 bsgp-sghmc")].value.item() == 0.24
    assert set(apart.remark) == {"normalised, how is not said"}


def test_runs_by_model_and_dataset():
    def runs(dataset, model):
        data = grids(dataset)[f"{catalogue_name(dataset)}-log-likelihood"].data
        return set(data[data.model == model].runs)

    assert runs("protein", "dspp3-qr3 dspp") == {5} and runs("protein", "dspp2-qr3 dspp") == {10}
    assert runs("protein", "gp-exact exact") == {3} and runs("3droad", "gp-exact exact") == {1}
    for name, protocol in protocols().items():
        of = [line for line in lines() if line.protocol == name]
        known_names = {line.dataset for line in of} | {line.model for line in of}
        known_names |= {f"{line.model} on {line.dataset}" for line in of}
        stated = set(protocol.runs) if isinstance(protocol.runs, dict) else set()
        assert stated <= known_names | {"otherwise", "protein", "year"}, name


def test_confidence_of_readings_is_data_and_remark():
    own = units("dsvi2017_dgp2", "kin8nm", [1.30, 1.32])
    data = grids("kin8nm", own)["kin8nm-log-likelihood"].data
    star = data[data.source == "lindinger2020star 1"]
    assert set(star.confidence) == {"ocr-checked"} and set(star.remark) == {"reading checked"}
    assert set(data[data.source == "salimbeni2017dsvi S7"].confidence) >= {"ocr-checked"}
    assert set(data[data.source.str.startswith("ours")].confidence) == {""}
    last = grids("rectangles-images")["rectangles-images-log-likelihood"].data.iloc[-1]
    assert (last.confidence, last.remark) == ("ocr-doubtful", "doubtful reading")


def test_doubtful_numbers_come_last_and_each_part_best_first():
    own = units("dsvi2017_dgp2", "kin8nm", [1.30, 1.32])
    for name, sign in (("kin8nm-log-likelihood", -1), ("kin8nm-RMSE", 1)):
        data = grids("kin8nm", own)[name].data
        last = doubtful(data)
        assert last.any() and not last.all() and not last[: (~last).sum()].any()
        for part in (data[last], data[~last]):
            values = list(sign * part.value.replace(float("-inf"), float("-1e9")))
            assert values == sorted(values)
    assert "doubtful ones last" in grids("kin8nm")["kin8nm-log-likelihood"].notes[0]
    assert "doubtful" not in grids("energy")["energy-CRPS"].notes[0]


def test_a_list_is_filtered_by_model_and_inference():
    own = units("dsvi2017_dgp2", "kin8nm", [1.30, 1.32]) + units("dsvi2017_sgp", "kin8nm", [1.0])
    every = grids("kin8nm", own)["kin8nm-log-likelihood"].data

    def filtered(*words):
        found = {grid.name: grid for grid in dataset_grids("kin8nm", own, words)}
        return list(found["kin8nm-log-likelihood"].data.model)

    assert filtered("model=dgp2,sgp", "inference=dsvi") == ["dgp2 dsvi", "sgp dsvi"]  # ours
    assert filtered("inference=sghmc") == [m for m in every.model if m.endswith(" sghmc")] != []
    deep = filtered("model=dgp*")
    assert deep == [model for model in every.model if model.startswith("dgp")] and len(set(deep)) > 8


def test_views_of_tables_are_refused_for_datasets(capsys):
    assert main(["tables", "kin8nm", "--compare"]) == 2
    error = capsys.readouterr().err
    assert "--compare is for tables, and kin8nm is a dataset" in error


def test_ours_of_images_are_nat_per_image():
    metrics = {"test_loglik": 13.3, "test_loglik_per_pixel": 0.017, "test_rmse": 0.24}
    found = [unit("ones100_collapsed", "mnist_images", 0, metrics)]
    shown = {name: set(grid.data.units) for name, grid in grids("mnist_images", found).items()}
    assert shown["mnist_images-log-likelihood"] == {"nat per image"}
    assert shown["mnist_images-RMSE"] == {"root of the mean squared error, original units"}
