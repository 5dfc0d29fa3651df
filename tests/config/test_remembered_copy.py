"""A remembered config is the one that was composed, whatever its user does with it afterwards."""

import pytest

from dgpbench.config import compose, remembered


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(remembered.SWITCH, str(tmp_path))
    monkeypatch.setattr(remembered, "_new", {})


def test_changes_of_a_config_are_not_remembered(own_cache):
    first = compose(["model=sgp", "seed=7", "inference.encoder=[20,20]"])
    first["threads"] = 5
    first["paths"]["results"] = "elsewhere"
    again = compose(["model=sgp", "seed=7", "inference.encoder=[20,20]"])
    assert again["threads"] is None and again["paths"]["results"] != "elsewhere"
