"""Plans: what the sweep syntax means, in how many compositions, and how quickly."""

import time
from itertools import product

import pytest
from sweep_tools import write_data

from dgpbench import config
from dgpbench.config import compose
from dgpbench.config.keys import run_key
from dgpbench.data.cache import data_hash
from dgpbench.errors import UserError
from dgpbench.sweep import planner as combinations
from dgpbench.sweep.plan import load_plan, plans
from dgpbench.sweep.planner import make_plan


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a csv file, and no network: synthetic sets and the file are all there is."""
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("RESULTS", "DATASETS", "MIRROR"):
        monkeypatch.delenv(f"DGPBENCH_{name}", raising=False)
    return ["dataset=csv", "dataset.path=data.csv"]


def plan_of(*overrides, **options):
    notes = []
    made = make_plan(overrides, fetch=True, note=notes.append, **options)
    return made, notes


def test_every_combination_with_the_keys_of_single_runs(here):
    plan, _ = plan_of(*here, "model=sgp,dgp2", "model.num_inducing=5,10", "split=0,3", "seed=range(2)")
    import numpy as np

    values = np.loadtxt("data.csv", delimiter=",")
    expected = {
        run_key(
            compose([*here, f"model={m}", f"model.num_inducing={n}", f"split={k}", f"seed={s}"]),
            data_hash(values[:, :2], values[:, 2:]),
        )
        for m, n, k, s in product(("sgp", "dgp2"), (5, 10), (0, 3), (0, 1))
    }
    assert len(plan.units) == 16 and {unit.key for unit in plan.units} == expected
    cfg = plan.config(0)
    assert (cfg["split"], cfg["seed"], cfg["model"]["name"]) == (0, 0, "sgp")


@pytest.mark.parametrize(
    "words, count",
    [
        ((), 20),  # the protocol's splits
        (("split=all",), 20),
        (("protocol=iwvi2019",), 5),
        (("protocol=clean,iwvi2019",), 25),
        (("split=range(1,20,6)",), 4),
        (("model=glob(dgp*)", "split=0"), 4),
        (("split=0", "seed=3"), 1),
    ],
)
def test_counts(here, words, count):
    model = () if any(word.startswith("model") for word in words) else ("model=linear",)
    assert len(plan_of(*here, *model, *words)[0].units) == count


@pytest.mark.parametrize(
    "words, message",
    [
        (("split=0,25",), "split=25 is out of range; protocol clean has splits 0 to 19"),
        (("split=some",), "split=some is not allowed; split must be a whole number, or all"),
        (("split=all,0",), "split=all stands alone"),
        (("seed=-1",), "seed=-1 is not allowed"),
        (("model=linear", "model=sgp"), "'model' is given twice; list its values: model=a,b"),
        (("model=glob(x*)",), "matches nothing"),
        (("model=lin",), "unknown model 'lin'"),
        (("modle=linear",), "unknown key 'modle'"),
        (("launcher=local,slurm",), "cannot be swept"),
        (("budget.steps=interval(1,5)",), "has no list of values"),
        (("launcher=slurm", "launcher.workers=2"), "unknown key 'launcher.workers'"),
        (("launcher.timeout=-1",), "launcher.timeout=-1 is not allowed; launcher.timeout must be a number"),
        (("launcher.models.dgp2.tim=3",), "unknown key 'launcher.models.dgp2.tim'; did you mean 'timeout'"),
        (("~split=1",), "cannot be deleted"),
    ],
)
def test_what_cannot_be_meant_is_refused(here, words, message):
    with pytest.raises(UserError) as told:
        plan_of(*here, *words)
    assert message in str(told.value)


def test_units_that_would_repeat_others_run_once(here):
    plan, notes = plan_of(*here, "model=linear", "budget.steps=5,6", "split=0,1")  # it makes no steps
    assert len(plan.units) == 2 and notes == ["2 units would repeat others (same numbers); each runs once"]


def test_ways_of_training_are_left_out_of_models_that_do_not_heed_them(here):
    words = ["inference=dsvi,ngd_adam", "precision=float64", "inference.batch=20", "split=0"]
    plan, notes = plan_of(*here, "model=linear,sgp,gpr", *words)
    assert [plan.configs[u.config]["model"]["name"] for u in plan.units] == ["linear", "sgp", "sgp", "gpr"]
    assert plan.units[0].key == plan_of(*here, "model=linear", "split=0")[0].units[0].key
    assert {cfg["precision"] for cfg in plan.configs if cfg["model"]["name"] != "sgp"} == {"mixed"}
    plan, _ = plan_of(*here, "experiment=dsvi2017_linear,dsvi2017_sgp", *words[1:])
    assert [cfg["inference"].get("batch") == 20 for cfg in plan.configs] == [False, True]
    with pytest.raises(UserError, match="model=linear is fitted in closed form and has no use for inference"):
        plan_of(*here, "model=linear,gpr", *words)


def test_what_a_model_needs_is_laid_over_the_launcher(here):
    extra = ["launcher.timeout=5", "launcher.models.dgp2.timeout=50", "launcher.models.dgp2.memory=8"]
    plan, _ = plan_of(*here, "model=sgp,dgp2", "split=0", *extra)
    assert [(s.timeout, s.memory) for s in plan.settings] == [(5.0, None), (50.0, 8.0)]


def test_threads_depend_on_the_plan_and_not_on_what_is_left(here, monkeypatch):
    monkeypatch.setattr("dgpbench.sweep.planner.usable_cores", lambda: 8)
    threads = lambda *words: plan_of(*here, "model=sgp", *words)[0].configs[0]["threads"]  # noqa: E731
    assert threads() == 1 and threads("split=0,1") == 4 and threads("split=0") == 8
    assert threads("launcher.workers=2") == 4 and threads("threads=3") == 3
    assert threads("launcher=slurm", "launcher.cpus=6") == 6


def test_ten_thousand_units_in_seconds_with_one_composition(here, monkeypatch):
    compositions = []
    real = combinations.compose
    monkeypatch.setattr(combinations, "compose", lambda *a, **k: compositions.append(a) or real(*a, **k))
    began = time.process_time()
    plan, _ = plan_of(*here, "model=dgp2", "seed=range(500)")
    path = plan.save()
    assert time.process_time() - began < 15.0  # 1.4 s measured
    assert len(plan.units) == 10_000 and len(compositions) == 1
    assert path.stat().st_size < 2e6
    assert load_plan(path) == plan and list(plans("results")) == [plan.name]


SETS = ["arm8", "bimodal", "heteroscedastic", "step"]


def test_datasets_are_composed_apart_and_come_out_the_same(here, monkeypatch):
    compositions = []
    real = combinations.compose
    monkeypatch.setattr(combinations, "compose", lambda *a, **k: compositions.append(a) or real(*a, **k))
    make = combinations.composer(
        {"dataset": SETS, "model": ["sgp", "dgp2", "dgp3"], "budget.steps": ["7"]}, ()
    )
    for dataset, model in product(SETS, ("sgp", "dgp2", "dgp3")):
        words = [f"dataset={dataset}", f"model={model}", "budget.steps=7"]
        assert make(words) == real(words)
    assert len(compositions) == 6  # four sets and three models, one composition shared


def test_datasets_are_not_composed_apart_where_something_refers_to_them(tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    text = "defaults: [_gp, _self_]\nname: ${dataset.name}\nlayers: [gp]\n"
    (tmp_path / "model/mine.yaml").write_text(text)
    make = combinations.composer({"dataset": SETS, "model": ["mine"]}, [tmp_path])
    for dataset in SETS:
        assert make([f"dataset={dataset}", "model=mine"])["model"]["name"] == dataset
    assert not combinations._separable({"dataset": ["a", "b"], "dataset.n": ["5"]}, [config.conf_dir()])


def test_a_plan_that_is_none(tmp_path):
    for content, message in (("[]", "is no plan"), ('{"format": 99}', "format 99"), ("{", "is no plan")):
        (tmp_path / "plan.json").write_text(content)
        with pytest.raises(UserError, match=message):
            load_plan(tmp_path / "plan.json")
    with pytest.raises(UserError, match="cannot read plan"):
        load_plan(tmp_path / "none.json")
