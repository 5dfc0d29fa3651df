"""The published numbers: complete, each with its source, units and what its error is."""

from collections import Counter

import pytest

from dgpbench.papers.published import (
    ERRORS,
    UNITS,
    Line,
    catalogue_name,
    citations,
    find,
    lines,
    log_std,
    protocols,
)


def test_every_number_has_source_protocol_and_confidence():
    counted = Counter(line.source for line in lines())
    assert len(lines()) == 1808 + 2387
    assert counted["ober2023dwp"] == 448 and counted["jankowiak2020ppgpr"] == 236
    assert counted["rossi2021bsgp"] == 274 and counted["ortega2022deepvip_runs"] == 517
    assert set(counted) == set(citations())
    assert {line.protocol for line in lines()} == set(protocols())
    assert {line.confidence for line in lines()} == {"clean", "ocr-checked", "ocr-doubtful"}
    for protocol in protocols().values():
        assert protocol.units in UNITS and protocol.error in ERRORS and protocol.about


def test_a_line_is_typed():
    line = next(x for x in lines() if x.source == "gpflux_repo_runs" and x.dataset == "kin8nm")
    assert line == Line("gpflux_repo_runs", "runs-json", "kin8nm", 8192, 8, "dgp1", "vi", "nlpp", *line[8:])
    assert isinstance(line.value, float) and isinstance(line.stderr, float)


@pytest.mark.parametrize(
    ("wanted", "value", "error"),
    [
        (("lindinger2020star", "1", "kin8nm", "dgp2", "vi-mf", "test_loglik"), 1.30, 0.01),
        (("ober2021dwp", "1", "concrete", "dgp5", "gi-vi", "test_loglik"), -3.18, 0.01),
        # a deviation over 20 splits (protein: 5), whatever its heading says
        (("gal2016dropout", "1", "boston", "mc-dropout-1h", "dropout", "test_rmse"), 2.97, 0.85 / 20**0.5),
        (("gal2016dropout", "1", "protein", "mc-dropout-1h", "dropout", "test_rmse"), 4.36, 0.04 / 5**0.5),
        (("lakshminarayanan2017", "1", "boston", "deep-ensemble-5", "ensemble", "nlpp"), 2.41, None),
        (("matthews2016thesis", "4.3", "thyroid", "svgp-m8", "kl", "nlpp"), 0.13, 0.03),
    ],
)
def test_cells_of_the_field_are_found_with_a_standard_error(wanted, value, error):
    names = ("source", "table", "dataset", "model", "inference", "metric")
    found = find(dict(zip(names, wanted, strict=True)))
    assert found.value == value
    assert found.error == (None if error is None else pytest.approx(error))


def test_units_of_the_two_scales():
    """GPflux's standardised DGP2 of kin8nm, mapped back: 1.29, where others print 1.29 to 1.34."""
    found = find(
        {
            "source": "gpflux_repo_runs",
            "table": "runs-json",
            "dataset": "kin8nm",
            "model": "dgp2",
            "metric": "nlpp",
        }
    )
    assert -found.value - log_std("kin8nm") == pytest.approx(1.29, abs=0.005)
    assert log_std("nothing") is None
    assert (catalogue_name("wine_red"), catalogue_name("boston")) == ("winered", "boston")
