"""Old configs, completed when they are read: as whole as those of today, under the keys they always had."""

import gzip
import json
from pathlib import Path

import pytest

from dgpbench import config
from dgpbench.config.keys import complete, later_defaults, merged
from dgpbench.config.sections import flatten, nested
from dgpbench.store.scan import parse

REFERENCE = Path(__file__).resolve().parents[2] / "results" / "reference"


def _lines() -> list[bytes]:
    return [line for path in sorted(REFERENCE.glob("*.jsonl.gz")) for line in gzip.open(path)]


def test_an_old_record_keeps_its_natgrad_section_and_gains_its_later_fields():
    every = [r for r in map(json.loads, _lines()) if "natgrad" in r["config"]["inference"]]
    (old, *_) = [r for r in every if "step" not in r["config"]["inference"]["natgrad"]]
    before = old["config"]["inference"]["natgrad"]
    after = parse(json.dumps(old).encode())["config"]["inference"]["natgrad"]
    assert after == before | {"step": "schedule", "direction": "natural", "inner_gamma": None}
    assert set(after) == set(config.compose()["inference"]["natgrad"])


def test_every_reference_record_becomes_a_whole_config_of_today_under_its_own_keys():
    lacking = 0
    for line in _lines():
        stored, record = json.loads(line), parse(line)
        lacking += stored["config"] != record["config"]
        config.validate(record["config"])  # no field of today is missing, and none is too many
        completed = flatten(record["config"])
        assert all(completed[name] == value for name, value in flatten(stored["config"]).items())
        for cfg in (stored["config"], record["config"]):
            assert config.config_key(cfg, record["data_hash"]) == record["config_key"]
            assert config.run_key(cfg, record["data_hash"]) == record["key"]
    assert lacking > 100


@pytest.mark.parametrize("words", ["", "model=cvae_50", "model=linear", "likelihood=beta", "dataset=mnist"])
def test_a_config_of_today_is_complete(words):
    cfg = config.compose(words.split())
    assert complete(cfg) == cfg | {"dataset": later_defaults("dataset") | cfg["dataset"]}


def test_only_the_fields_of_the_model_and_likelihood_at_hand_are_added():
    old = {"model": {"_target_": "mine.Model", "name": "mine"}, "likelihood": {"name": "beta", "scale": 2.0}}
    assert complete(old) == old | {"likelihood": {"name": "beta", "scale": 2.0, "rescale": False}}
    assert complete({"model": {"layers": ["gp"]}})["likelihood"] == {"name": "auto"}
    assert complete({"inference": 3, "a": {}}) == {"inference": 3, "a": {}}  # not for us to mend


def test_merging_goes_to_the_bottom_and_what_is_given_wins():
    assert merged({"a": {"b": 1, "c": {"d": 2}}}, {"a": {"c": {"e": 3}}, "f": 4}) == {
        "a": {"b": 1, "c": {"d": 2, "e": 3}},
        "f": 4,
    }
    assert merged({"a": {"b": 1}}, {"a": None}) == {"a": None}
    assert nested(flatten({"a": {"b": 1, "c": {"d": []}}, "e": 2})) == {"a": {"b": 1, "c": {"d": []}}, "e": 2}
