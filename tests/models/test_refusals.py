"""The light tables of what models and likelihoods are for, against the classes themselves."""

from importlib import import_module

import pytest

from dgpbench.gp import targets
from dgpbench.gp.likelihoods import LIKELIHOODS
from dgpbench.models.refusals import TASKS


@pytest.mark.parametrize("place", TASKS)
def test_tasks_are_those_of_the_class(place):
    file, _, name = place.rpartition(".")
    assert getattr(import_module(f"dgpbench.models.{file}"), name).tasks == TASKS[place]


def test_every_likelihood_has_its_tasks():
    assert list(targets.TASKS) == list(LIKELIHOODS)
