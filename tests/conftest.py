"""Tests, and the processes they start, use a cache folder of their own, not the user's."""

import os
import sys
import tempfile

import pytest

_folder = tempfile.TemporaryDirectory(prefix="dgpbench-cache-")
os.environ["DGPBENCH_CACHE"] = _folder.name


@pytest.fixture(autouse=True)
def _plugins_of_one_test():
    """Forget the plug-in folders and targets that a test used."""
    from dgpbench.config import plugins

    held = dict(plugins._used), dict(plugins._declared), list(sys.path)
    yield
    for store, before in zip((plugins._used, plugins._declared), held[:2], strict=True):
        store.clear()
        store.update(before)
    sys.path[:] = held[2]
