"""Composition: who wins, what is refused, and how it is said."""

from pathlib import Path

import pytest

from dgpbench import config
from dgpbench.config import tree
from dgpbench.errors import UserError


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)


def test_defaults_are_plain_and_typed():
    cfg = config.compose()
    assert type(cfg) is dict and type(cfg["model"]["layers"]) is list
    assert cfg["dataset"]["name"] == "energy" and cfg["model"]["layers"] == ["gp", "gp"]
    assert cfg["paths"] == {"results": "results", "datasets": "datasets", "mirror": None, "config_dirs": []}
    assert cfg["model"]["kernel_variance"] == 2.0 and cfg["model"]["jitter"] is None
    assert cfg["experiment"] is None and config.deviations(cfg) == []


def test_whole_numbers_become_real_where_meant():
    cfg = config.compose(["model.kernel_variance=1", "budget.seconds=5", "budget.steps=1e3"])
    assert type(cfg["model"]["kernel_variance"]) is float and type(cfg["budget"]["seconds"]) is float
    assert cfg["budget"]["steps"] == 1000 and type(cfg["budget"]["steps"]) is int


PROTOCOLS = {
    "clean": (20, "shuffle", "train", None),
    "dsvi2017": (20, "shuffle", "train", None),
    "iwvi2019": (5, "shuffle", "all", 10000),
    "iwvi2019_released": (5, "fixed_zero", "all", 10000),
    "gal2016": (20, "published", "train", None),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols(name):
    protocol = config.compose([f"protocol={name}"])["protocol"]
    got = tuple(protocol[k] for k in ("splits", "split_rule", "scaling", "max_test"))
    assert got == PROTOCOLS[name] and protocol["name"] == name


DEPTHS = {"sgp": 1, "sgp500": 1, "dgp2": 2, "dgp3": 3, "dgp4": 4, "dgp5": 5}


@pytest.mark.parametrize("variant", ["", "_shared", "_thesis"])
@pytest.mark.parametrize("model", DEPTHS)
def test_experiments_are_what_the_paper_states(model, variant):
    cfg = config.compose([f"experiment=dsvi2017_{model}{variant}"])
    m, inference = cfg["model"], cfg["inference"]
    assert cfg["experiment"] == f"dsvi2017_{model}{variant}" and cfg["protocol"]["name"] == "dsvi2017"
    assert m["name"] == model and m["layers"] == ["gp"] * DEPTHS[model]
    assert m["num_inducing"] == (500 if model == "sgp500" else 100)
    assert m["ard"] is (variant != "_shared")
    assert m["kernel_variance"] == m["lengthscale"] == (1.0 if variant == "_thesis" else 2.0)
    assert (m["likelihood_variance"], m["inner_noise"], m["inner_q_scale"]) == (0.01, 1e-5, 1e-5)
    assert (m["kernel"], m["max_width"], m["width"]) == ("rbf", 30, None)
    assert (inference["optimiser"], inference["batch"], inference["samples"]) == ("adam", 10000, 1)
    assert (inference["adam"]["learning_rate"], inference["adam"]["decay"]) == (0.01, 1.0)
    assert (cfg["budget"]["steps"], cfg["budget"]["seconds"]) == (20000, None)
    assert cfg["protocol"]["test_samples"] == 100 and cfg["precision"] == "float64"
    assert config.deviations(cfg) == []


def test_command_line_wins_over_experiment():
    cfg = config.compose(["experiment=dsvi2017_dgp2", "model=dgp3"])
    assert cfg["model"]["name"] == "dgp3" and cfg["model"]["layers"] == ["gp"] * 3
    assert config.deviations(cfg) == ["model.layers=[gp,gp,gp] (experiment: [gp,gp])"]
    cfg = config.compose(
        ["budget=quick", "model.ard=true", "precision=mixed", "experiment=dsvi2017_sgp_shared"]
    )
    assert (cfg["budget"]["steps"], cfg["model"]["ard"], cfg["precision"]) == (1000, True, "mixed")
    assert config.deviations(cfg) == [
        "budget.steps=1000 (experiment: 20000)",
        "model.ard=true (experiment: false)",
        "precision=mixed (experiment: float64)",
    ]


def test_choices_that_are_no_deviation():
    cfg = config.compose(["experiment=dsvi2017_sgp", "dataset=concrete", "split=3", "seed=2", "threads=1"])
    assert config.deviations(cfg) == []


def test_environment_fills_paths_and_command_line_wins(monkeypatch):
    monkeypatch.setenv("DGPBENCH_RESULTS", "/r r")
    monkeypatch.setenv("DGPBENCH_MIRROR", "")
    assert config.compose()["paths"]["results"] == "/r r" and config.compose()["paths"]["mirror"] is None
    assert config.compose(["paths.results=/other"])["paths"]["results"] == "/other"


REFUSED = {
    "modle=dgp2": "unknown key 'modle'; did you mean 'model'?",
    "model.num_inducin=5": "unknown key 'model.num_inducin'; did you mean 'model.num_inducing'?",
    "num_inducing=5": "unknown key 'num_inducing'; did you mean 'model.num_inducing'?",
    "dataset=kin8mn": "unknown dataset 'kin8mn'; did you mean 'kin8nm'? (`dgpbench data list` lists all)",
    "model=dpg2": "unknown model 'dpg2'; did you mean 'dgp2'? (`dgpbench run --help model` lists",
    "experiment=dsvi2017_dgp9": "unknown experiment 'dsvi2017_dgp9'; did you mean 'dsvi2017_dgp5'?",
    "model=_gp": "unknown model '_gp'",
    "model.num_inducing=-3": "model.num_inducing=-3 is not allowed; model.num_inducing must be",
    "model.num_inducing=2.5": "must be a whole number at least 1",
    "model.ard=1": "model.ard=1 is not allowed; model.ard must be true or false",
    "precision=flaot64": "did you mean 'float64'? precision must be one of float64, mixed, float32",
    "split=20": "split=20 is out of range; protocol clean has splits 0 to 19",
    "split=-1": "split must be a whole number at least 0",
    "split=one": "split must be a whole number at least 0",
    "seed=true": "seed=true is not allowed",
    "seed=3000000000": "at most 2147483647",
    "split=0,1": "runs each of them",
    "split=range(3)": "runs each of them",
    "split=[1": "cannot read 'split=[1'",
    "dgp3": "overrides are written name=value",
    "+model.x=1": "unknown key 'model.x'",
    "~model.ard=true": "cannot be deleted",
    "hydra.verbose=true": "a setting of Hydra's own runner",
    "model.layers=gp": "model.layers=gp is not allowed; model.layers must be a list",
    "model.layers=[gp,cnn]": "each one of: gp, lv, linear",
    "model.layers=[gp,lv]": "the last layer must be gp",
    "model.layers=[gp,linear,gp]": "linear projects the inputs and can only come first",
    "model.layers=[linear,gp]": "needs both: model.layers=[linear,lv,gp] model.projection_dim=10",
    "model.projection_dim=3": "a projection needs both",
    "model.use_inputs=false": "the first layer must be lv",
    "model.latent_dim=0": "model.latent_dim must be a whole number at least 1",
    "model.compat=old": "model.compat must be one of released, or null",
    "inference=iwvi": "model.layers=[gp,gp] has no latent variables: inference.bound=iwvi needs an lv layer",
    "inference.importance_samples=0": "inference.importance_samples must be a whole number at least 1",
    "inference.encoder=[20,0]": "a list of hidden widths of at least 1, e.g. [20,20], or []",
    "model.layers=[]": "each one of: gp",
    "model.kernel=rbg": "model.kernel=rbg is no kernel; did you mean 'rbf'?",
    "model.kernel=white": "is no kernel",
    "model.lengthscale=0": "must be a number above 0, or sqrt_dim",
    "model.lengthscale=nan": "must be a number above 0, or sqrt_dim",
    "model.inner_noise=0": "model.inner_noise=0 cannot be trained",
    "model.layer_overrides={2:{ard:false}}": "layer_overrides.2 names no layer; layers are numbered 0 to 1",
    "model.layer_overrides.0.kernl=rbf": "did you mean 'model.layer_overrides.0.kernel'?",
    "model.layer_overrides.0.num_inducing=0": "model.layer_overrides.0.num_inducing must be a whole number",
    "model.layer_overrides.1.width=3": "is a setting of inner layers and not of the last",
    "model.layer_overrides=5": "must be a mapping",
    "engine=5": "'engine' must be a section with fields of its own",
    "engine.xla=maybe": "engine.xla must be one of auto, true, false",
    "threads=0": "at least 1, or null",
    "budget.steps=null": "the budget is empty; set budget.steps or budget.seconds",
    "budget.seconds=0": "budget.seconds must be a number above 0, or null",
    "inference.natgrad.gamma=2": "above 0 and at most 1",
    "inference.optimiser=adma": "did you mean 'adam'?",
    "protocol.train_fraction=1": "leaves no test rows; it must be below 1, or take protocol=whole",
    "protocol.scaling=test": "protocol.scaling must be one of train, all",
    "paths.results=": "paths.results must be text",
    "paths.results=${nothing}": "cannot compose the config",
}


@pytest.mark.parametrize("override", REFUSED)
def test_bad_input_is_one_clear_line(override):
    with pytest.raises(UserError) as caught:
        config.compose([override])
    assert REFUSED[override] in str(caught.value) and "\n" not in str(caught.value)


REFUSED_TOGETHER = {
    "model=lv_gp inference.dreg=true": "inference.dreg=true is a gradient of iwvi; inference.bound is vi",
    "model=lv_gp_gp inference=optimal": "one latent layer right below the last gp, as in [lv,gp]",
    "model=cde inference=optimal model.latent_dim=3": "quadrature over 3-dimensional latent variables is not",
    "model=cde inference=optimal inference.quadrature.nodes=65": "must be even and at least 16",
}


@pytest.mark.parametrize("overrides", REFUSED_TOGETHER)
def test_settings_that_do_not_fit_are_one_clear_line(overrides):
    with pytest.raises(UserError) as caught:
        config.compose(overrides.split())
    assert REFUSED_TOGETHER[overrides] in str(caught.value) and "\n" not in str(caught.value)


def test_layer_overrides_have_text_numbers():
    cfg = config.compose(["model.layer_overrides={1:{num_inducing:20},0:{kernel:matern52+linear,width:2}}"])
    expected = {"0": {"kernel": "matern52+linear", "width": 2}, "1": {"num_inducing": 20}}
    assert cfg["model"]["layer_overrides"] == expected
    assert list(cfg["model"]["layer_overrides"]) == ["0", "1"]
    cfg = config.compose(["model.layer_overrides.0.kernel_variance=3"])
    assert cfg["model"]["layer_overrides"] == {"0": {"kernel_variance": 3.0}}


def _user_folder(root: Path, name: str = "mine", body: str = "") -> Path:
    (root / "model").mkdir(parents=True)
    (root / "model" / f"{name}.yaml").write_text(body or "_target_: my_module.Mine\nname: mine\ndepth: 3\n")
    return root


def test_a_users_model_has_its_own_fields(tmp_path):
    folder = _user_folder(tmp_path / 'a "quoted" folder')
    cfg = config.compose(["model=mine", "model.depth=4"], [folder])
    assert cfg["model"] == {"_target_": "my_module.Mine", "name": "mine", "depth": 4}
    assert cfg["paths"]["config_dirs"] == [str(folder)]
    with pytest.raises(UserError, match="unknown key 'model.dept'; did you mean 'model.depth'"):
        config.compose(["model=mine", "model.dept=4"], [folder])
    with pytest.raises(UserError, match="unknown model 'mine'"):
        config.compose(["model=mine"])


def test_a_users_model_may_build_on_ours(tmp_path):
    body = "defaults:\n  - _gp\n  - _self_\nname: mine\nlayers: [gp]\nnum_inducing: 0\n"
    with pytest.raises(UserError, match="model.num_inducing=0 is not allowed"):
        config.compose(["model=mine"], [_user_folder(tmp_path, body=body)])


def test_a_users_experiment_is_found_again_for_deviations(tmp_path):
    (tmp_path / "experiment").mkdir()
    body = "# @package _global_\ndefaults:\n  - override /model: sgp\nexperiment: mine\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(body)
    cfg = config.compose(["experiment=mine", "budget.steps=7"], [tmp_path])
    assert config.deviations(cfg) == [
        "budget.growth=none (experiment: sqrt)",
        "budget.max_steps=null (experiment: 20000)",
        "budget.steps=7 (experiment: 5000)",
    ]


@pytest.mark.parametrize(
    "name, body, message",
    [
        ("dgp2", "", "model dgp2 in .* is named like a built-in model; rename it"),
        ("bad", "a: [1", "cannot compose the config"),
        ("bad", "name: bad\n", "model._target_ is missing"),
        ("bad", "_target_: a.B\nname: ???\n", "model.name needs a value; add model.name="),
        ("bad", "_target_: dgpbench.models.gp.GPModel\nname: bad\n", "model.layers is missing"),
    ],
)
def test_bad_user_files(tmp_path, name, body, message):
    with pytest.raises(UserError, match=message):
        config.compose([f"model={name}"], [_user_folder(tmp_path, name, body)])


def test_config_dir_must_exist(tmp_path):
    with pytest.raises(UserError, match="is no folder"):
        config.compose([], [tmp_path / "none"])


@pytest.mark.slow
def test_every_option_composes_and_is_explained():
    folder = config.conf_dir()
    for group in tree.groups():
        for name, path in tree.options(group).items():
            assert tree.explanation(name, path), path.relative_to(folder)
            if group not in ("dataset", "launcher", "experiment"):  # test_expand composes experiments
                needs = {"iwvi": ["model=lv_gp"], "optimal": ["model=lv_gp"], "sgpmc": ["model=sgp"]}
                needs["collapsed"] = ["model=gplvm"]
                needs |= dict.fromkeys(("joint", "star"), ["precision=float64"])
                assert config.compose([f"{group}={name}", *needs.get(name, [])])[group]["name"] == name


def test_every_field_in_the_help_is_a_field():
    rows = tree.main_fields()
    assert len(rows) > 40 and all(text for name, _, text in rows if not name.endswith("decay_steps"))
    assert config.compose([f"{name}={value}" for name, value, _ in rows]) == config.compose()


def test_a_model_may_name_the_inference_it_needs_and_the_user_and_the_experiment_win():
    def chosen(*words):
        cfg = config.compose(list(words))
        return cfg["inference"]["optimiser"], cfg["inference"]["batch"], cfg["precision"]

    assert chosen() == chosen("model=dgp3") == ("ngd_adam", 1000, "mixed")
    assert chosen("model=cvae_50") == chosen("model=mdn_10") == ("adam", 512, "mixed")
    assert chosen("model=mdn_10", "inference=dsvi") == ("adam", 10_000, "mixed")
    assert chosen("experiment=dsvi2017_dgp2") == ("adam", 10_000, "float64")
    with pytest.raises(UserError, match="inference.optimiser=ngd_adam is not possible"):
        chosen("experiment=iwvi2019_gp", "model=mdn")  # the experiment's inference wins over the model's
