"""Combinations of model, inference, precision and likelihood compose and run, or are refused in one line."""

from collections import Counter
from functools import lru_cache
from itertools import product

import pytest

from dgpbench.config import compose
from dgpbench.config.refusals import unused_sections
from dgpbench.config.tree import FAMILIES, options
from dgpbench.errors import UserError

MODELS, INFERENCES = tuple(options("model")), tuple(options("inference"))
PRECISIONS = ("float64", "mixed", "float32")


def refusal(*words):
    """Return the one line that refuses these words, or None."""
    try:
        cfg = compose(list(words))
    except UserError as error:
        assert str(error) and "\n" not in str(error), words
        return str(error)
    assert cfg["precision"] in PRECISIONS
    return None


@lru_cache(maxsize=1)
def pairs():
    """Return each pair of model and inference with its refusal."""
    return {(m, i): refusal(f"model={m}", f"inference={i}") for m, i in product(MODELS, INFERENCES)}


def test_pairs_of_model_and_inference():
    found = Counter(model for (model, _), reason in pairs().items() if reason is None)
    for model in MODELS:
        assert refusal(f"model={model}") is None, model  # with its own default inference
        fitted_elsewhere = unused_sections(compose([f"model={model}"])["model"])
        assert bool(found[model]) is not bool(fitted_elsewhere), model
    assert {inference for (_, inference), reason in pairs().items() if reason is None} == set(INFERENCES)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_with_a_precision_more_is_refused_and_nothing_else_changes(precision):
    for (model, inference), reason in pairs().items():
        words = f"model={model}", f"inference={inference}", f"precision={precision}"
        told = refusal(*words)
        assert told or reason is None, words
        if told and not reason:
            assert "precision" in told or "float32" in told, words


@pytest.mark.parametrize("likelihood", sorted(set(options("likelihood")) - {"auto"}))
def test_with_a_likelihood_more_is_refused_and_nothing_else_changes(likelihood):
    for (model, inference), reason in pairs().items():
        if reason is None:
            told = refusal(f"model={model}", f"inference={inference}", f"likelihood={likelihood}")
            assert told is None or likelihood in told, (model, inference)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("model=gpr inference=analytic", "has no use for inference=analytic"),
        ("model=linear inference=collapsed", "has no use for inference=collapsed"),
        ("model=mdn inference=analytic", "inference=analytic is for GP models and model=mdn is a network"),
        ("model=mdn inference=sghmc", "inference=sghmc is for GP models"),
        ("model=mfdgp inference=aep", "inference=aep is not for model=mfdgp"),
        ("model=mfdgp inference=joint", "inference=joint is not for model=mfdgp"),
        ("model=mfdgp inference=iwvi", "inference=iwvi is not for model=mfdgp"),
        ("model=mfdgp likelihood=poisson", "likelihood=poisson is not possible with model=mfdgp"),
        ("model=vgp likelihood=softmax", "likelihood softmax has no exact counterpart in GPflow"),
        ("model=gpmc likelihood=ordinal", "likelihood ordinal has no exact counterpart in GPflow"),
        ("model=ep_gpc likelihood=softmax", "whose link is the probit"),
        ("model=sgpr likelihood=student_t", "whose noise is Gaussian"),
        ("model=dgp2 inference=joint precision=mixed", "remove precision=mixed"),
        ("model=dgp2 inference=joint precision=float32", "precision=mixed or float64"),
        ("model=sgp inference=sghmc budget=minute", "set budget.steps"),
        ("model=gpmc budget=minute", "set budget.steps"),
    ],
)
def test_refusals_name_the_setting(words, says):
    assert says in refusal(*words.split())


# ---- defaults that follow from the method and the budget ------------------------------------------------


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("", "mixed"),
        ("model=linear", "mixed"),
        ("model=dgp2 inference=joint", "float64"),
        ("model=dgp3 inference=star", "float64"),
        ("model=sgp inference=joint", "mixed"),
        ("model=dgp2 inference=joint inference.estimator=sampled", "mixed"),
        ("model=dgp2 inference=joint inference.estimator=sampled precision=float64", "float64"),
        ("experiment=sampling_sghmc1", "float64"),
        ("precision=auto inference=star", "float64"),
    ],
)
def test_each_method_sets_the_precision_it_needs(words, precision):
    assert compose(words.split())["precision"] == precision


@pytest.mark.parametrize("steps", [50, 600, 5000])
@pytest.mark.parametrize("inference", INFERENCES)
def test_defaults_fit_every_budget(inference, steps):
    model = {"sgpmc": "sgp", "iwvi": "cde", "optimal": "cde", "collapsed": "cde"}.get(inference, "dgp2")
    cfg = compose([f"inference={inference}", f"model={model}", f"budget.steps={steps}"])
    assert cfg["budget"]["steps"] == steps
    if inference in ("sghmc", "sgpmc"):
        s = cfg["inference"]
        left = steps - s.get("start", {"steps": 0})["steps"] - s["burn_in"]
        assert left // s["thinning"] >= min(steps // 4, 100)


@pytest.mark.parametrize(
    ("words", "burn_in", "thinning"),
    [
        ("budget.steps=50", 25, 1),
        ("budget.steps=600", 300, 3),
        ("budget.steps=2524", 1262, 12),
        ("budget.steps=2525", 2500, 25),  # from here on as it always was
        ("budget.steps=5000", 2500, 25),
        ("budget.steps=20000", 2500, 25),
        ("budget.steps=600 inference.burn_in=500", 500, 25),
        ("budget.steps=510 inference.burn_in=500", 500, 1),
        ("budget.steps=600 inference.thinning=30", 300, 30),
        ("budget.steps=600 inference.burn_in=10 inference.thinning=7", 10, 7),
        ("budget.steps=600 inference.kept=30", 300, 10),
    ],
)
def test_sghmc_divides_its_budget(words, burn_in, thinning):
    found = compose(["inference=sghmc", *words.split()])["inference"]
    assert (found["burn_in"], found["thinning"]) == (burn_in, thinning)


@pytest.mark.parametrize(
    ("words", "start", "burn_in"),
    [
        ("budget.steps=50", 25, 12),
        ("budget.steps=600", 300, 150),
        ("budget.steps=1501", 1000, 500),
        ("budget.steps=20000", 1000, 500),
        ("budget.steps=600 inference.start.steps=200", 200, 200),
        ("budget.steps=600 inference.burn_in=300", 200, 300),
    ],
)
def test_sgpmc_divides_its_budget(words, start, burn_in):
    found = compose(["inference=sgpmc", "model=sgp", *words.split()])["inference"]
    assert (found["start"]["steps"], found["burn_in"]) == (start, burn_in)


@pytest.mark.parametrize(("steps", "kept"), [(1, 1), (50, 25), (199, 100), (200, 100), (5000, 100)])
def test_gpmc_keeps_what_its_budget_leaves(steps, kept):
    assert compose(["model=gpmc", f"budget.steps={steps}"])["model"]["kept"] == kept


@pytest.mark.parametrize(
    "words",
    [
        "inference=sghmc budget.steps=600 inference.burn_in=600",
        "inference=sghmc budget.steps=1",
        "inference=sgpmc model=sgp budget.steps=600 inference.start.steps=600",
        "model=gpmc budget.steps=600 model.kept=400",
    ],
)
def test_what_the_user_sets_must_fit(words):
    assert "leaves" in refusal(*words.split())


# ---- families -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "name"), [(g, name) for g, found in FAMILIES.items() for name in found])
def test_a_family_means_its_default_member(group, name):
    member = FAMILIES[group][name]
    assert name not in options(group) and member in options(group)
    assert compose([f"{group}={name}"]) == compose([f"{group}={member}"])
    assert len([other for other in options(group) if other.startswith(name)]) > 1


def test_sweeps_compare_and_filters_understand_families():
    from dgpbench.config.tree import config_folders
    from dgpbench.report.comparison.question import ask
    from dgpbench.sweep.planner import axes_of

    axes, _, _ = axes_of(["model=cvae,sgp,cvae_50", "inference=ngd", "dataset=mf"], config_folders())
    assert axes == {"model": ["cvae_50", "sgp"], "inference": ["ngd_adam"], "dataset": ["mf_sine"]}
    assert [column.label for column in ask(["model=dgp,sgp"]).columns] == ["dgp2", "sgp"]


def test_an_option_of_the_users_own_wins_over_a_family(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "dgp.yaml").write_text("_target_: mine.Model\nname: dgp\n")
    assert compose(["model=dgp"], [tmp_path])["model"]["name"] == "dgp"


def test_a_field_that_some_of_the_methods_have_is_left_out_of_the_others():
    from dgpbench.config.tree import config_folders
    from dgpbench.sweep.planner import axes_of, fitting

    words = ["model=lv_gp", "inference=iwvi,collapsed", "inference.importance_samples=7"]
    axes, _, _ = axes_of(words, config_folders())
    fit = fitting(axes, ())
    assert fit(["inference=iwvi", words[2]]) == ["inference=iwvi", words[2]]
    assert fit(["inference=collapsed", words[2]]) == ["inference=collapsed"]


# ---- what composes runs ---------------------------------------------------------------------------------

TINY = (
    *("budget.steps=4", "engine.xla=false", "threads=1", "protocol.test_samples=3", "protocol.draws=5"),
    *("protocol.max_test=3", "protocol.latent_samples=3"),
)


DATA = {
    "mfdgp": ["dataset=mf_sine"],
    "alignment": ["dataset=shifted_sincs"],
    "logistic": ["dataset=gaussians3", "protocol.train_rows=12"],
    **dict.fromkeys(
        ("ep_gpc", "gfitc"),
        ["dataset=csv", "dataset.path=two.csv", "dataset.target=y", "dataset.task=binary"],
    ),
}


BRIEF = ("linear", "knn", "gpr", "mdn_1", "mfdgp", "sgp", "vgp")  # one of each kind


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(name, marks=() if name in BRIEF else pytest.mark.long)
        for name in sorted(set(MODELS) - {"wrapped"})  # which needs a class of the user's
    ],
)
def test_what_composes_runs(model, tmp_path, monkeypatch):
    from dgpbench.experiment import run_unit

    monkeypatch.chdir(tmp_path)
    rows = [f"{x},{x % 3 // 2}" for x in range(20)]
    (tmp_path / "two.csv").write_text("\n".join(["x,y", *rows]))
    words = [f"model={model}", *TINY, *DATA.get(model, ["dataset=step", "dataset.n=20"])]
    words += [f"paths.{name}={tmp_path}/{name}" for name in ("results", "datasets")]
    if "num_inducing" in compose([f"model={model}"])["model"]:
        words += ["model.num_inducing=3"]
    chosen = [[f"inference={name}"] for name in INFERENCES if pairs()[model, name] is None]
    for inference in chosen or [[]]:
        unit, _ = run_unit(compose([*words, *inference]))
        assert unit.record["status"] == "done", (inference, unit.record["reason"])
