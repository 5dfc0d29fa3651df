"""The light table of what models are for, against the classes themselves."""

from importlib import import_module

import pytest

from dgpbench.models.base import TASKS


@pytest.mark.parametrize("place", TASKS)
def test_tasks_are_those_of_the_class(place):
    file, _, name = place.rpartition(".")
    assert getattr(import_module(f"dgpbench.models.{file}"), name).tasks == TASKS[place]
