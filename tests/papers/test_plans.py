"""Plans of cells: kept between processes, the same as composed ones, and never believed when damaged."""

import hashlib
import json

import pytest

from dgpbench.config import compose, config_key, remembered
from dgpbench.papers import plans

WORDS = ("experiment=dsvi2017_dgp3", "budget.steps=7")
DATA, HASH = (("name", "energy"), ("task", "regression")), "0" * 64


@pytest.fixture
def end(tmp_path, monkeypatch):
    """An empty cache; returns a function that ends the process, as far as the cache can tell."""
    monkeypatch.setenv(remembered.SWITCH, str(tmp_path / "cache"))
    monkeypatch.setattr(remembered, "_new", {})
    caches = (remembered._stored, remembered._file, plans.plan_of, plans.cell_key, plans._composed)

    def forget():
        remembered.flush()
        for cache in caches:
            cache.cache_clear()
        return next((tmp_path / "cache").glob("configs-*.json"), None)

    forget()
    yield forget
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def composed(monkeypatch):
    """Words that were composed."""
    calls = []
    monkeypatch.setattr(
        "dgpbench.config.compose", lambda words, dirs: (calls.append(words), compose(words))[1]
    )
    return calls


def expected() -> str:
    whole = compose([*WORDS, "dataset=energy"])
    return config_key(whole, HASH)


def test_a_plan_comes_back_without_composition(end, composed):
    first = plans.plan_of(WORDS)
    assert plans.cell_key(WORDS, (), DATA, HASH) == expected() and composed == [WORDS]
    assert end().stat().st_mode & 0o077 == 0
    again = plans.plan_of(WORDS)
    assert again.protocol == first.protocol and again.dataset == first.dataset
    assert plans.cell_key(WORDS, (), DATA, HASH) == expected() and composed == [WORDS]


def test_other_data_have_their_own_key_and_both_stay(end, composed):
    first = plans.cell_key(WORDS, (), DATA, HASH)
    end()
    second = plans.cell_key(WORDS, (), DATA, "1" * 64)
    assert second != first and len(composed) == 2
    end()
    found = [plans.cell_key(WORDS, (), DATA, data) for data in (HASH, "1" * 64)]
    assert found == [first, second] and len(composed) == 2


@pytest.mark.parametrize("damage", ["key", "protocol", "shape"])
def test_what_has_not_the_shape_of_a_plan_is_composed_anew(end, composed, damage):
    plans.cell_key(WORDS, (), DATA, HASH)
    path = end()
    kept = json.loads(json.loads(path.read_text())["configs"])
    for name in (name for name in kept if name.startswith(remembered.FACTS)):
        if damage == "key":
            kept[name]["keys"] = dict.fromkeys(kept[name]["keys"], "../elsewhere")
        elif damage == "protocol":
            kept[name]["protocol"] = {"splits": "many"}
        else:
            kept[name] = {"dataset": {}}
    text = json.dumps(kept)
    path.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "configs": text}))
    assert plans.cell_key(WORDS, (), DATA, HASH) == expected() and composed == [WORDS, WORDS]


def test_plans_on_a_users_own_file_are_not_kept(end, composed, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    words = ("model=sgp", "dataset=csv", f"dataset.path={file}", "dataset.target=y", "dataset.task=auto")
    assert plans.plan_of(words).dataset["task"] == "binary"
    end()
    file.write_text("x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(20)))
    assert plans.plan_of(words).dataset["task"] == "regression" and len(composed) == 2
