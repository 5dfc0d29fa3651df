"""Table 1 on compositional uncertainty from the published records: what is in the order of the paper."""

from pathlib import Path

import numpy as np
import pytest

from dgpbench.papers import specs
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.store.reference import load

FILE = Path(__file__).parents[2] / "results" / "reference" / "ustyuzhaninov2020.jsonl.gz"
DSVI, JOINT, LOCATIONS = "Factorised (DSVI)", "Jointly Gaussian", "Inducing points as locations"


@pytest.fixture(scope="module")
def table():
    return build(specs.load("ustyuzhaninov1"), Records(load(FILE)))


def _values(table, row, column):
    found = table.cells[row, column].values
    assert sorted(found) == list(range(10))
    return np.array([found[trial] for trial in range(10)])


def test_joint_gaussian_beats_mean_field_in_every_trial(table):
    """Bound and both variances: trials of one number start alike."""
    for column in ("Bound", "Var f1(0)", "Var f2(0)"):
        assert (_values(table, JOINT, column) > _values(table, DSVI, column)).all()


def test_variances_are_in_the_order_of_the_paper(table):
    """Each posterior has more than 2.5 times the variances of the one before, in the mean and in print."""
    for column in ("Var f1(0)", "Var f2(0)"):
        ours = [table.ours(row, column).mean for row in (DSVI, JOINT, LOCATIONS)]
        printed = [table.published(row, column).mean for row in (DSVI, JOINT, LOCATIONS)]
        for found in (ours, printed):
            assert found[1] > 2.5 * found[0] and found[2] > 2.5 * found[1]
