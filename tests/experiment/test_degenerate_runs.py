"""Data with nothing to learn from: every run ends in finite numbers, a reason, or one line."""

import json
import math

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.experiment import run_unit
from dgpbench.store.scan import scan
from dgpbench.store.verify import verify

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 2)), RNG.normal(size=40)


def table(X=X, y=Y):
    return np.column_stack([X, y])


DATA = {
    "constant target": table(y=np.full(40, 3.0)),
    "constant target of zero": table(y=np.zeros(40)),
    "constant inputs": table(X=np.ones((40, 2))),
    "everything constant": np.ones((40, 3)),
    "one row many times": np.tile(table()[:1], (40, 1)),
    "two rows many times": np.tile(table()[:2], (20, 1)),
    "five rows": table()[:5],
    "six rows": table()[:6],
    "four rows": table()[:4],
    "target among the inputs": table(X=np.column_stack([X[:, 0], Y])),
    "inputs alike": table(X=np.column_stack([X[:, 0]] * 4)),
    "more inputs than rows": np.hstack([RNG.normal(size=(12, 30)), RNG.normal(size=(12, 1))]),
    "huge offset": table(X=X + 1e12),
    "huge offset of the target": table(y=Y + 1e12),
    "tiny numbers": table() * 1e-60,
    "large numbers": table() * 1e60,
    "one outlier": np.vstack([table(), [1e90, 0.0, 0.0]]),
    "an outlier of the target": np.vstack([table(), [0.0, 0.0, 1e90]]),
    "target of two values": table(y=(Y > 0).astype(float)),
    "whole numbers": np.round(10 * table()),
    "beyond the range": np.vstack([table(), [1e300, 0.0, 0.0]]),
}
REFUSED = ("four rows", "beyond the range")
GP = ["model.num_inducing=5", "budget.steps=5", "engine.xla=false"]


@pytest.mark.parametrize("name", DATA)
def test_a_degenerate_run_ends_in_order(tmp_path, name):
    check(tmp_path, name, "model=linear")


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_a_degenerate_run_of_a_gp_ends_in_order(tmp_path, name):
    check(tmp_path, name, "model=sgp", *GP)


def check(tmp_path, name, *model):
    np.savetxt(tmp_path / "data.csv", DATA[name], delimiter=",", fmt="%.17g")
    words = ["dataset=csv", f"dataset.path={tmp_path / 'data.csv'}", *model, "protocol.draws=20"]
    paths = [f"paths.results={tmp_path / 'results'}", f"paths.datasets={tmp_path / 'datasets'}"]
    try:
        unit, _ = run_unit(compose([*words, *paths, "protocol.test_samples=4"]))
    except UserError as error:
        assert str(error) and name in REFUSED
        return
    record = unit.record
    assert name not in REFUSED and record["status"] in ("done", "diverged", "failed")
    assert record["status"] == "done" or record["reason"]
    for value in record["metrics"].values():
        assert value is None or math.isfinite(value)
    json.dumps(dict(record), allow_nan=False)
    problems = []
    assert len(scan(tmp_path / "results")) == verify(tmp_path / "results", False, problems.append) == 1
    assert not problems
