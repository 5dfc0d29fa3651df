"""Run keys: golden values, what enters them and what does not."""

import copy
import hashlib
import json

import pytest

from dgpbench import config
from dgpbench.config import keys

DATA = "0" * 64
GOLDEN = {  # command line: (run key, config key)
    "": (
        "ba2ff794b5bd862ad1d5f2342ba465fbdf22f769291a33022ffeb91209796896",
        "6b261cb2bf2c0d41b9da6b5a211311c63e0a58ec0761ad149ca420afbb54f44e",
    ),
    "inference=fast model.start=config model.per_output=none budget=default": (  # the former default
        "d08cc2db329b61964f105c0f7568b7a516909a9d9b8992ef00d4dbe571d6d2d6",
        "d9fda5a3aad8d5a55de4b936106419ca3187828553fbeb644df71349a9317fc3",
    ),
    "model=cvae_50": (
        "b1c70815147ccfaae14dd566d49bceb6c56d2484aedd6f93f61f2b73a746c5af",
        "90caa204d17d4c277ab705ff45b54718c0e054ee76f17da00ef2ddd8db105f3e",
    ),
    "inference=dsvi precision=float64": (
        "55ee742cff931b012a51241819eac012d5a8771ace7de63524eb0a5799a43eb8",
        "d357c0f04d49e8adb5d14126a4f60bd438347d63ed14f2d85bb6f983b1e48293",
    ),
    "inference=dsvi precision=float64 split=3 seed=1": (
        "7b6ca92c0461e290e012b9f9ca4b19c450c0c90d78f2a318452e71029fde0ee8",
        "d357c0f04d49e8adb5d14126a4f60bd438347d63ed14f2d85bb6f983b1e48293",
    ),
    "model=sgp dataset=concrete inference=ngd_adam precision=mixed": (
        "a76bd30a542c5296c75da3906067aaaf4f0794081c6357d32fba3a8a9a963553",
        "87be9fca99fa721f048262fb733ba1a2c7b910675002e9ebdbf62db1572ee655",
    ),
    "experiment=dsvi2017_dgp2": (
        "da8f59e8dcf14de147181059ea6a2f89935e2d9e4a683acbef4a8c61d3a2699e",
        "5965d038e9a76d5e6561313c7afae1e73fdf41005430da0ea7ed41c5ed487217",
    ),
    "experiment=dsvi2017_sgp dataset=boston": (
        "1f2fa8e135d22621ecf0bef7705f2dbe5b0e7860b22e6c1282eb704b472e2e7d",
        "d4c8546c09264c162bf46c362a3c5a3b69052a567fbf11fb5f6c8dff18651b34",
    ),
    "experiment=dsvi2017_sgp_shared": (
        "dd039f88f00a4d7644aab16dde8ca82b28ffb96c4e4a572028af20d276dbbc40",
        "ccbfeeb01188c6fda57ac0e72e1a1b584b44a5d59ea4107603f170819d727780",
    ),
    "experiment=dsvi2017_dgp3_thesis split=19": (
        "69b9535d5a9678de945b57179bef5a05a431153ebe2c0e72512000c7fe34a05c",
        "9bdbffc7fbf3bad7b5b6a2075ed83ac3186d228bad4b4bf803aa61fd39ade6f0",
    ),
    "model=linear protocol=gal2016": (
        "ffceaa4d87fe837b12cef7ad256d1203e5af553a243350a37b204213447691fe",
        "345a8003b807f84d33a8b8af9f89b202f40d69a4ed31a3b7dd926278a4b4c4f4",
    ),
    "protocol=iwvi2019_released model=dgp5 inference=ngd_all precision=float64": (
        "0c32b0d1c30364968fadc3d6340dc82506764e0e7cab8c37ac182bd9459ebeca",
        "dd252f6fb7f5e1d42a662bdab18722ee6def3349f521a3f8432393e7b986bfac",
    ),
    "inference=dsvi precision=float64 budget=minute device=cpu threads=2": (
        "1fc6afbe3195b37f18c9cc3e942cdaa20aa6c2034cfd66db764df7c781423192",
        "13e53500973e4145dd83182fd6a32fb45fefba3ca3324a180acc379c6550d964",
    ),
    "model=dgp2 inference=sghmc": (
        "9b36fec2f57e35b66d34cdf5067e458144a7515a7153ecbce167568119e9da59",
        "3fb7d3d4f847c75ca212c022215eb8fa68e37ae7540e4ee7a18daeb8a1b2e856",
    ),
    "model=sgp inference=sgpmc": (
        "b18b01aaf666ed0ca255585650b0d5881bf424bb409c468825a400de961e0462",
        "e81014d0487060546af810af9fa05d102107b379acda8b20693b1e9ff963f0bf",
    ),
    "experiment=sampling_sghmc2": (
        "58443ed905e1d83d51f46d3110447b72234789deb5367637b002fb973c407023",
        "17c42792f073f83a84283e03caa19b0c19ce31dbf3f7ef8b968b7d549c3c2c8d",
    ),
    "model=dgp2 inference=joint precision=float64": (
        "818df1bd22bad156bdfaf1a9461ccf48cf3af10fbab55c910f4dea74f7babeb1",
        "bfb263044b1be63cfeb90bf78f6185375fcd6509705077bc23a0f698b4af30c9",
    ),
    "inference=sghmc model=sgp budget.steps=2525": (
        "c45b22470711724a8a0410392236f56c7f200c55f891e02ce0410c0526590d46",
        "470e13ef4ce5f69d1ca0c79381a9e960a2570b49ccaca3fbcc742e25be9f2146",
    ),
    "inference=sghmc model=sgp budget.steps=20000": (
        "7217f0b403fb2fa5ff490ab34426a86ea68d54897ba67231f96b0eec6ba620f2",
        "f5d286179e6313b90f3c8b88f4f283e8cbcb5054ea358d03213335f93454c2e6",
    ),
    "inference=dsvi precision=float64 model.layer_overrides={0:{kernel:matern52,num_inducing:50}}": (
        "0349260d0fc3f94b23c8b737f25ceb7bb04bf86b7a14e09e8137e3e21a00f12a",
        "564f0895eb93c01eea24d5ee76378f4ef271036f8e490bfc2fe356d76441efd6",
    ),
}

LATER = {  # fields that came after the first keys: left out while they have this value
    "protocol.evaluate": "test",
    "protocol.latent_samples": 2000,
    "protocol.fixed_test": True,
    "protocol.stratify": False,
    "protocol.row_number": False,
    "protocol.pixels": "unit",
    "protocol.layer_variances": False,
    "protocol.test_rows": None,
    "protocol.train_rows": None,
    "model.inducing": "kmeans",
    "model.kronecker": False,
    "model.priors": {},
    "model.latent_dim": 1,
    "model.latent_scale": 1,
    "model.inner_gps": None,
    "model.mixing_trainable": False,
    "model.inner_variance_trainable": True,
    "model.output_gps": None,
    "model.projection_dim": None,
    "model.projection_scale": 0.1,
    "model.use_inputs": True,
    "model.likelihood_variance_trainable": True,
    "model.output_mixing": "principal",
    "model.mixing_lengthscale": 1,
    "model.output_mixing_trainable": True,
    "model.dropout": 0,
    "model.compat": None,
    "model.per_output": "none",
    "model.start": "config",
    "budget.growth": "none",
    "budget.max_steps": None,
    "budget.stop": "none",
    "budget.window": 1000,
    "budget.tolerance": 0.002,
    "budget.patience": 2,
    "model.whiten": True,
    "inference._target_": "dgpbench.inference.variational.Variational",
    "inference.bound": "vi",
    "inference.importance_samples": 5,
    "inference.dreg": False,
    "inference.latent_q": "amortised",
    "inference.encoder": [20, 20],
    "inference.quadrature.rule": "adaptive",
    "inference.quadrature.nodes": 64,
    "inference.hyperparameters": "trained",
    "inference.natgrad.inner_gamma": None,
    "inference.natgrad.step": "schedule",
    "inference.natgrad.direction": "natural",
    "likelihood.name": "auto",
    "likelihood.epsilon": 0.001,
    "likelihood.df": 3,
    "likelihood.scale": 1,
    "likelihood.shape": 1,
    "likelihood.sigma": 1,
    "likelihood.low": -2,
    "likelihood.high": 2,
    "likelihood.rescale": False,
}


def independent_key(cfg: dict, data_hash: str, unit: bool) -> str:
    """The documented rule, written again."""

    def walk(prefix, node):
        if isinstance(node, dict) and node:
            for key, value in node.items():
                yield from walk(f"{prefix}.{key}", value)
        elif not (prefix.count(".") == 1 and prefix.endswith(".name")):
            yield prefix, int(node) if isinstance(node, float) and node == int(node) else node

    fields, closed = {}, cfg["model"].get("closed_form", False)
    own = cfg["model"].get("own_training", False)
    sections = ("protocol", "model") if closed else ("protocol", "model", "inference", "budget")
    for section in (name for name in sections if not (own and name == "inference")):
        fields.update(walk(section, cfg[section]))
    fields["dataset.name"] = cfg["dataset"]["name"]
    if not closed and not own:
        fields["precision"] = cfg["precision"]
    if not closed:
        fields.update({f"likelihood.{name}": value for name, value in cfg["likelihood"].items()})
    if cfg["budget"]["seconds"] is not None and not closed:
        fields["device"], fields["threads"] = cfg["device"], cfg["threads"]
    if unit:
        fields["split"], fields["seed"] = cfg["split"], cfg["seed"]
    fields = {name: v for name, v in fields.items() if name not in LATER or v != LATER[name]}
    text = json.dumps(
        {"numerics": 1, "data": data_hash, "config": fields}, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("model=gpmc", "72a2a2afb54018d0d72a6a7df381993e91902f2a640179b218df4f54dbc5dfae"),
        (
            "experiment=matthews2016_toy_mcmc",
            "b062e51cc7dd02eb159155461612b58a1c2af8cad8d75fd273530ec235b96b3d",
        ),
    ],
)
def test_golden_keys_of_samplers(words, key):
    assert config.run_key(config.compose(words.split()), DATA) == key


@pytest.mark.parametrize("words", GOLDEN)
def test_golden_keys(words):
    cfg = config.compose(words.split())
    got = config.run_key(cfg, DATA), config.config_key(cfg, DATA)
    assert got == (independent_key(cfg, DATA, True), independent_key(cfg, DATA, False))
    assert got == GOLDEN[words]


def test_the_likelihood_enters_unless_it_is_the_default_of_the_task():
    assert both("likelihood=gaussian") == both()
    student = both("likelihood=student_t")
    assert student != both() and both("likelihood=student_t", "likelihood.df=3") == student
    assert both("likelihood=student_t", "likelihood.df=4") != student
    old = config.compose([])
    del old["likelihood"]  # a config from before there were any
    assert config.run_key(old, DATA) == both()[0]


def trained_otherwise(*words):
    """A config as older versions composed it: with an inference and a precision that its model ignores."""
    other = config.compose(["inference=ngd_adam", "precision=float64"])
    return config.compose(list(words)) | {name: other[name] for name in ("inference", "precision")}


def test_what_is_optimised_does_not_enter_a_closed_form():
    plain = both("model=linear")
    assert both("model=linear", "budget=minute") == plain
    assert keys_of(trained_otherwise("model=linear")) == plain
    assert both("model=linear", "protocol.scaling=all") != plain


def test_what_another_optimiser_does_not_heed_stays_out_and_its_start_and_budget_enter():
    plain = both("model=sgpr")
    assert both("model=sgpr", "budget=default") == plain
    assert keys_of(trained_otherwise("model=sgpr")) == plain
    for setting in ("budget.steps=9", "model.lengthscale=1", "model.frozen_steps=5", "protocol.scaling=all"):
        assert both("model=sgpr", setting)[1] != plain[1]
    assert both("model=vgp", "likelihood=student_t") != both("model=vgp")
    cfg = config.compose(["model=vgp", "likelihood=student_t"])
    assert config.run_key(cfg, DATA) == independent_key(cfg, DATA, True)
    assert cfg["inference"]["name"] == "lbfgs"


def both(*overrides: str) -> tuple[str, str]:
    return keys_of(config.compose(list(overrides)))


def keys_of(cfg: dict) -> tuple[str, str]:
    return config.run_key(cfg, DATA), config.config_key(cfg, DATA)


@pytest.mark.parametrize(
    "overrides",
    [
        ("paths.results=/elsewhere", "paths.mirror=/m"),
        ("device=cpu", "threads=1"),
        ("engine.chunk_rows=500", "engine.tensorboard=true"),
        ("tracker=mlflow", "tracker.uri=sqlite:///m.db"),
        ("inference=standard", "budget=standard", "model.start=data", "model.per_output=all"),
        ("model.name=other", "budget=scaled", "budget.steps=5000", "budget.max_steps=20000"),
        ("engine.block_seconds=1", "model.latent_scale=1"),  # as 1.0
        ("dataset.title=Other",),
    ],
)
def test_what_does_not_determine_the_numbers_stays_out(overrides):
    assert both(*overrides) == both()


@pytest.mark.parametrize(
    "override",
    [
        "model.num_inducing=99",
        "model=dgp3",
        "inference=ngd_adam",
        "budget.steps=10",
        "precision=float64",
        "protocol.scaling=all",
        "protocol.stratify=true",
        "protocol.fixed_test=false",
        "protocol.row_number=true",
        "protocol.pixels=scaling",
        "protocol.layer_variances=true",
        "protocol.test_rows=100",
        "protocol.train_rows=100",
        "model.num_inducing=0.3",
        "dataset=concrete",
        "model.layer_overrides.0.ard=false",
        "model.ard=false",
    ],
)
def test_settings_change_both_keys(override):
    assert both(override)[0] != both()[0] and both(override)[1] != both()[1]


@pytest.mark.parametrize("override", ["split=1", "seed=1"])
def test_split_and_seed_change_the_run_only(override):
    assert both(override)[0] != both()[0] and both(override)[1] == both()[1]


def test_own_test_rows_enter():
    """They are a setting of the user's own file: other rows, other numbers."""
    cfg = config.compose(["dataset=csv"])
    assert config.config_key(cfg, DATA) == config.config_key(with_rows(cfg, None), DATA)
    assert config.config_key(cfg, DATA) != config.config_key(with_rows(cfg, 50), DATA)
    assert config.config_key(with_rows(cfg, 60), DATA) != config.config_key(with_rows(cfg, 50), DATA)


def with_rows(cfg: dict, rows: int | None) -> dict:
    return cfg | {"dataset": cfg["dataset"] | {"train_rows": rows}}


def test_data_and_task_enter():
    cfg = config.compose()
    assert config.config_key(cfg, "1" * 64) != config.config_key(cfg, DATA)
    other = copy.deepcopy(cfg)
    other["dataset"]["task"] = "binary"
    assert config.config_key(other, DATA) != config.config_key(cfg, DATA)


def test_device_and_threads_join_under_a_time_budget():
    assert both("budget=minute", "threads=1") != both("budget=minute", "threads=2")
    assert both("budget=minute", "device=cpu") != both("budget=minute", "device=auto")


def test_a_later_option_changes_no_old_key(monkeypatch):
    cfg = config.compose()
    before = config.run_key(cfg, DATA)
    later = copy.deepcopy(cfg)
    later["inference"]["adam"]["epsilon"] = 1e-7
    assert config.run_key(later, DATA) != before
    monkeypatch.setitem(keys.LATER_DEFAULTS, "inference.adam.epsilon", 1e-7)
    assert config.run_key(later, DATA) == before
    later["inference"]["adam"]["epsilon"] = 1e-8
    assert config.run_key(later, DATA) != before


def test_a_config_read_back_from_json_has_the_same_key():
    cfg = config.compose(["model.layer_overrides={0:{num_inducing:20}}"])
    assert config.run_key(json.loads(json.dumps(cfg)), DATA) == config.run_key(cfg, DATA)


def test_the_former_default_spelled_out_has_its_key():
    former = both("inference=fast", "model.start=config", "model.per_output=none", "budget=default")
    assert (
        former
        == both("inference=fast")
        == GOLDEN["inference=fast model.start=config model.per_output=none budget=default"]
    )
    assert former == both("experiment=dsvi2017_dgp2", "inference=fast", "precision=mixed", "budget=default")
    assert former != both()


@pytest.mark.parametrize("inference", ["dsvi", "fast", "ngd_adam", "sghmc", "global_inducing"])
def test_a_named_inference_starts_and_ends_as_before(inference):
    cfg = config.compose([f"inference={inference}"])
    assert (cfg["model"]["start"], cfg["model"]["per_output"]) == ("config", "none")
    assert (cfg["budget"]["steps"], cfg["budget"]["growth"], cfg["budget"]["max_steps"]) == (
        5000,
        "none",
        None,
    )


def test_models_with_their_own_training_have_no_growth():
    for model in ("linear", "gpr", "cvae_50"):
        assert config.compose([f"model={model}"])["budget"]["growth"] == "none"
    assert config.compose(["model=sgp"])["budget"]["growth"] == "sqrt"


def test_steps_that_are_asked_for_are_made():
    budget = config.compose(["model=sgp", "budget.steps=300"])["budget"]
    assert (budget["steps"], budget["growth"], budget["max_steps"]) == (300, "none", None)
    assert config.compose(["budget=scaled", "budget.steps=300"])["budget"]["growth"] == "sqrt"


@pytest.mark.parametrize(
    ("words", "own"),
    [
        ("", "all"),
        ("model=dgp3 model.kernel=matern52", "all"),
        ("model=sgp", "none"),  # no inner layer
        ("model=lv_gp_gp", "none"),
        ("model.kernel=rbf*linear", "none"),
        ("model.layer_overrides.0.kernel=periodic", "none"),
        ("model.inner_gps=3", "none"),
        ("model.whiten=false", "none"),
        ("model.per_output=kernel", "kernel"),
    ],
)
def test_layers_of_the_default_are_their_own_where_they_can(words, own):
    assert config.compose(words.split())["model"]["per_output"] == own


def test_a_single_layer_may_be_left_to_the_rule_too():
    for inference, own in (("standard", "all"), ("dsvi", "none")):
        cfg = config.compose(["model.layer_overrides.0.per_output=auto", f"inference={inference}"])
        assert cfg["model"]["layer_overrides"]["0"]["per_output"] == own


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("", "data"),
        ("model=sgp", "data"),
        ("model.likelihood_variance=0.5", "config"),  # what is asked for is taken
        ("model.likelihood_variance=0.01", "config"),  # also where it is the value of the file
        ("model.layer_overrides.1.lengthscale=1", "config"),
        ("model.likelihood_variance_trainable=false", "config"),
        ("model=lv_gp", "config"),  # its file has first values of its own
        ("model.start=config", "config"),
    ],
)
def test_first_values_that_are_asked_for_are_taken(words, start):
    assert config.compose(words.split())["model"]["start"] == start
