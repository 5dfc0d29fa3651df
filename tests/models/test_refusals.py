"""The light table of what models are for, against the classes themselves; classes that have moved."""

from importlib import import_module

import pytest

from dgpbench.config.classes import MOVED, load_class
from dgpbench.models.base import TASKS


@pytest.mark.parametrize("place", TASKS)
def test_tasks_are_those_of_the_class(place):
    assert load_class("model._target_", f"dgpbench.models.{place}").tasks == TASKS[place]


@pytest.mark.parametrize("old", MOVED)
def test_a_moved_class_has_left_its_first_module(old):
    with pytest.raises(ModuleNotFoundError):
        import_module(old)
    assert MOVED[old] not in MOVED and import_module(MOVED[old])
