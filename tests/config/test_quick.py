"""Composition without Hydra: equal to Hydra's to the last field, or left to Hydra."""

import pytest

from dgpbench.config.composition import _compose, compose
from dgpbench.config.quick import quick
from dgpbench.config.tree import config_folders
from dgpbench.errors import UserError

FEW = [
    "experiment=iwvi2019_cvae_50 inference=dsvi",  # all three name an inference
    "experiment=dsvi2017_sgp dataset=statlog-heart protocol.train_fraction=0.652 seed=3 split=1",
    "model=dgp2 model.layers=[gp,gp,gp] paths.results=/tmp/some-where/r.1 paths.datasets=../data",
]
MANY = [
    "",
    "model=mc_dropout",
    "model=cvae_50 inference.batch=7 budget.steps=12",
    "model=sgp500 likelihood=student_t precision=float32 model.lengthscale=sqrt_dim budget.seconds=null",
    "model=deep_ensemble experiment=cde_gp inference=adam",
    "experiment=dsvi2017_dgp2_fast_shared model=sgp inference.adam.learning_rate=1e-3",
    "experiment=natgrad_naval_beta_adam dataset=boston launcher=slurm",
    "inference=optimal model=cde protocol=iwvi2019_released",
    "model=alignment inference=dsvi",
]


def both(words):
    folders = config_folders()
    assert quick(words, folders) is not None
    return compose(words), _compose(words, folders)


@pytest.mark.parametrize("text", FEW)
def test_plain_cases_are_hydras(text):
    ours, theirs = both(text.split())
    assert ours == theirs and str(ours) == str(theirs)  # the fields in the same order too


@pytest.mark.slow
@pytest.mark.parametrize("text", MANY)
def test_more_plain_cases_are_hydras(text):
    ours, theirs = both(text.split())
    assert ours == theirs and str(ours) == str(theirs)


def test_the_environment_is_read_each_time(monkeypatch):
    monkeypatch.setenv("DGPBENCH_MIRROR", "/some/where")
    assert quick([], config_folders())["paths"]["mirror"] == "/some/where"
    monkeypatch.delenv("DGPBENCH_MIRROR")
    assert quick([], config_folders())["paths"]["mirror"] is None


@pytest.mark.parametrize(
    "text",
    [
        "model=[sgp]",
        "model.layers=[[gp,gp],[gp]]",
        "model.priors.lengthscale=[gamma,1,1]",
        "model=sgp,dgp2",
        "model=nothing",
        "model.not_there=1",
        "budget={steps: 1}",
        "model.lengthscale=.5",
        "model.width=1_0",
        "model.lengthscale=nan",
        "model.layer_overrides.0.kernel=rbf",
        "paths.results=${paths.datasets}",
        "+model.ard=true",
        "hydra.verbose=true",
        "model=sgp model=dgp2",
    ],
)
def test_what_is_not_plain_is_left_to_hydra(text):
    assert quick(text.split(), config_folders()) is None


def test_a_file_with_interpolation_or_package_is_left_to_hydra(tmp_path):
    for name, body in {
        "refers": "name: refers\nkind: ${dataset.kind}\n",
        "moved": "# @package _global_\nname: moved\n",
        "parts": "defaults: [/dataset/csv, _self_]\nname: parts\n",
    }.items():
        (tmp_path / "dataset").mkdir(exist_ok=True)
        (tmp_path / "dataset" / f"{name}.yaml").write_text(body)
        assert quick([f"dataset={name}"], [*config_folders(), tmp_path]) is None, name


def test_bad_values_are_refused_as_before():
    for words in (["budget.steps=-1"], ["model=sgp", "model.kernel=nothing"], ["split=20"]):
        with pytest.raises(UserError) as ours:
            compose(words)
        with pytest.raises(UserError) as theirs:
            _compose(words, config_folders())
        assert str(ours.value) == str(theirs.value)
