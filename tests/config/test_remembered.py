"""Configs composed before: found again by content, never where anything differs or cannot be trusted."""

import json
import shutil

import pytest

from dgpbench.config import composition, remembered
from dgpbench.config.composition import compose
from dgpbench.config.keys import run_key
from dgpbench.config.tree import conf_dir

HYDRA = "inference.encoder=[20,20]"  # a list is not plain: Hydra composes it
WORDS = ["model=dgp3", "dataset=boston", "budget.steps=7", HYDRA]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; returns a function that ends the process, as far as the cache can tell."""
    monkeypatch.setenv(remembered.SWITCH, str(tmp_path / "cache"))
    monkeypatch.setattr(remembered, "_new", {})

    def end():
        remembered.flush()
        remembered._stored.cache_clear()
        remembered._file.cache_clear()
        return next((tmp_path / "cache").glob("configs-*.json"), None)

    remembered._stored.cache_clear()
    remembered._file.cache_clear()
    yield end
    remembered._stored.cache_clear()
    remembered._file.cache_clear()


@pytest.fixture
def hydra_calls(monkeypatch):
    calls, real = [], composition._hydra
    monkeypatch.setattr(composition, "_hydra", lambda *a, **k: (calls.append(a), real(*a, **k))[1])
    return calls


def test_a_config_comes_back_without_hydra(cache, hydra_calls):
    first = compose(WORDS)
    assert len(hydra_calls) == 1
    assert compose(WORDS) == first and compose(WORDS) is not first
    path = cache()
    again = compose(WORDS)
    assert again == first and len(hydra_calls) == 1 and run_key(again, "d") == run_key(first, "d")
    assert path.stat().st_mode & 0o077 == 0
    compose([*WORDS, "seed=1"])
    assert len(hydra_calls) == 2


def test_a_changed_environment_is_another_config(cache, hydra_calls, monkeypatch, tmp_path):
    monkeypatch.setenv("DGPBENCH_RESULTS", str(tmp_path / "a"))
    compose(WORDS)
    cache()
    monkeypatch.setenv("DGPBENCH_RESULTS", str(tmp_path / "b"))
    assert compose(WORDS)["paths"]["results"] == str(tmp_path / "b") and len(hydra_calls) == 2


def test_a_changed_conf_file_is_another_config(cache, hydra_calls, tmp_path):
    (tmp_path / "own" / "model").mkdir(parents=True)
    mine = tmp_path / "own" / "model" / "mine.yaml"
    shutil.copy(conf_dir() / "model" / "dgp2.yaml", mine)
    words = ["model=mine", "dataset=boston", HYDRA]
    before = compose(words, [tmp_path / "own"])
    cache()
    mine.write_text(mine.read_text() + "num_inducing: 17\n")
    after = compose(words, [tmp_path / "own"])
    assert len(hydra_calls) == 2 and after["model"]["num_inducing"] == 17 != before["model"]["num_inducing"]


@pytest.mark.parametrize("damage", ["text", "digest", "config", "mode", "list"])
def test_what_cannot_be_trusted_is_composed_anew(cache, hydra_calls, damage):
    good = compose(WORDS)
    path = cache()
    document = json.loads(path.read_text())
    if damage == "text":
        path.write_text(path.read_text()[:-30])
    elif damage == "digest":
        document["configs"] = document["configs"].replace('"steps": 7', '"steps": 8')
        path.write_text(json.dumps(document))
    elif damage == "mode":
        path.chmod(0o666)
    else:
        import hashlib

        text = "[]" if damage == "list" else document["configs"].replace('"steps": 7', '"steps": "many"')
        path.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "configs": text}))
    assert compose(WORDS) == good and len(hydra_calls) == 2


def test_a_task_read_from_the_data_is_not_kept(cache, hydra_calls, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    words = ["dataset=csv", f"dataset.path={file}", "dataset.target=y", "dataset.task=auto"]
    compose(words)
    compose(words)
    assert len(hydra_calls) == 2


def test_no_folder_no_cache(cache, hydra_calls, monkeypatch):
    monkeypatch.setenv(remembered.SWITCH, "")
    remembered._file.cache_clear()
    compose(WORDS)
    compose(WORDS)
    assert len(hydra_calls) == 2 and remembered.folder() is None
