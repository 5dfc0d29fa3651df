"""Ranges and lists of a search, and the values drawn from them."""

import math

import numpy as np
import pytest

from dgpbench.errors import UserError
from dgpbench.tuning.search_space import Axis, parse

RATE = "inference.adam.learning_rate=log(1e-3,1e-1)"


def test_values_at_known_places():
    assert Axis("a", "log", 1e-3, 1e-1).at(0.5) == "0.01"  # the geometric mean
    assert Axis("a", "uniform", 2.0, 4.0).at(0.25) == "2.5"
    assert [Axis("a", "int", 3, 5).at(u) for u in (0.0, 0.34, 0.999)] == ["3", "4", "5"]
    assert [Axis("a", "list", values=("x", "y")).at(u) for u in (0.0, 0.5)] == ["x", "y"]


def test_words_are_ranges_lists_or_fixed():
    space = parse(["model=dgp2", RATE, "model.num_inducing=50,100,200", "model.kernel_variance=uniform(1,2)"])
    assert space.fixed == ("model=dgp2",) and space.splits == (0,)
    assert [axis.kind for axis in space.axes] == ["log", "list", "uniform"]
    assert space.axes[1].values == ("50", "100", "200")
    assert parse([RATE, "split=all"]).splits is None and parse([RATE, "split=3,1"]).splits == (3, 1)
    assert parse(["model=glob(dgp*)"]).axes[0].values == ("dgp2", "dgp3", "dgp4", "dgp5")
    assert parse(["model.layers=[gp],[gp,gp]"]).axes[0].values == ("[gp]", "[gp,gp]")
    assert space.overrides(("0.01", "50", "1.5"))[0] == "inference.adam.learning_rate=0.01"


def test_draws_fill_the_range_and_go_on_with_more_trials():
    space = parse([RATE, "model.num_inducing=int(10,12)"])
    found = space.candidates(2000, seed=0)
    assert found[:5] == space.candidates(5, seed=0) and found[:5] != space.candidates(5, seed=1)
    rates = np.log([float(rate) for rate, _ in found])
    place = (rates - math.log(1e-3)) / math.log(100)
    assert np.abs(np.sort(place) - np.linspace(0, 1, 2000)).max() < 0.04  # Kolmogorov: 0.03 at 5 %
    counts = np.unique([m for _, m in found], return_counts=True)
    assert list(counts[0]) == ["10", "11", "12"] and counts[1].min() > 600


def test_small_spaces_are_tried_out_in_full():
    space = parse(["model.num_inducing=50,100", "inference.batch=int(1,2)"])
    assert space.candidates(4, seed=7) == [("50", "1"), ("50", "2"), ("100", "1"), ("100", "2")]
    assert len(space.candidates(3, seed=7)) == 3


@pytest.mark.parametrize(
    "words, text",
    [
        (["model=dgp2"], "nothing to tune"),
        (["model"], "cannot read 'model'"),
        ([RATE, "dataset=energy,boston"], "cannot be tuned"),
        ([RATE, "seed=0,1"], "cannot be tuned"),
        (["inference.batch=log(0,10)"], "needs a above 0"),
        (["inference.batch=int(1.5,10)"], "takes two whole numbers"),
        (["inference.batch=uniform(3,1)"], "needs a below b"),
        (["inference.batch=uniform(0,inf)"], "needs a below b"),
        ([RATE, RATE], "given twice"),
        ([RATE, "split=x"], "split must be a whole number, or all"),
    ],
)
def test_what_is_no_search_is_refused(words, text):
    with pytest.raises(UserError, match=text):
        parse(words)
