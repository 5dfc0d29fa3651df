"""Run keys: golden values, what enters them and what does not."""

import copy
import hashlib
import json

import pytest

from dgpbench import config, keys

DATA = "0" * 64
GOLDEN = {  # command line: (run key, config key)
    "": (
        "681cc2040596bce466408a497945648facc958687e8f96260803b6a1d053b145",
        "8c9aa44c67a72f286eea70767ead28ab950b4edc1ee0e5b7d02c35463c0e0064",
    ),
    "split=3 seed=1": (
        "464bd03402bf33fe2e0506c3d4af63fab79ffba6ff072e85d075a234def2d4b5",
        "8c9aa44c67a72f286eea70767ead28ab950b4edc1ee0e5b7d02c35463c0e0064",
    ),
    "model=sgp dataset=concrete inference=ngd_adam precision=mixed": (
        "c7f02946c42f6a2b220d3989dca5a6187c51a4a6802678f2f1b59008bced7fdf",
        "44ffac91aed75cbaa30fb169df83334a138267021c602f1c62986e407d111610",
    ),
    "experiment=dsvi2017_dgp2": (
        "681cc2040596bce466408a497945648facc958687e8f96260803b6a1d053b145",
        "8c9aa44c67a72f286eea70767ead28ab950b4edc1ee0e5b7d02c35463c0e0064",
    ),
    "experiment=dsvi2017_sgp dataset=boston": (
        "a78ea5d1dcfa5865cf5ab68bef1586e8167825d299b142e9d5e870854b6f92bc",
        "f3cb7ae900165222a0e110e40011a65841bf122166ed8bacfe05dbf74508bb55",
    ),
    "experiment=dsvi2017_sgp_shared": (
        "7584fe54dd577d0150031494f52e42dd0ad4e586acf7f8979c479250ee0b16e6",
        "69352d8eb199cd6acba28588fb707b326aecd198b0fac7ed46faff9df21049e5",
    ),
    "experiment=dsvi2017_dgp3_thesis split=19": (
        "093f88e58d067618d8d87fc616a090d9cacaa118b09c03f1d07460eeb2d18175",
        "dae3e7b9f8888c3bf8b1ddf9b1b478346b1fa4df3fede5c400593687266cd03d",
    ),
    "model=linear protocol=gal2016": (
        "a3fd9397112556a2eb36715138287d724065f6f039d0e0b4fe6483bf5ae683e1",
        "c682b1b1ab3b49ecea62e1d78bd142b3a232f3134e25f43b9a996a5495544882",
    ),
    "protocol=iwvi2019_released model=dgp5 inference=ngd_all": (
        "52342a56f5fff86c49be7c4cee9c76464f8cc5c2640ff9fdae21622de75b3ae3",
        "0daaee5c9b4d9bf0afff6aa359ee57798ffa7d72dc9d06bb38ff1e4a7da332e1",
    ),
    "budget=minute device=cpu threads=2": (
        "22ba9e760e0a4cecc0acfebaa05d792abb1a4c28a38f4af224bc73f6f40b3f3a",
        "93d5d71bdcee95128955d7865712672ca4602e62e5dc598f6c89c241c6f3c538",
    ),
    "model.layer_overrides={0:{kernel:matern52,num_inducing:50}}": (
        "64b33f282b968ba7b62de0fe067285e4e956b498bd8888e9ef5b2d408f0e5bad",
        "65d0c6b0fd9739c3c3ed36555a281c5b4fe90037f677756729d0af222b373b63",
    ),
}


def independent_key(cfg: dict, data_hash: str, unit: bool) -> str:
    """The documented rule, written again."""

    def walk(prefix, node):
        if isinstance(node, dict) and node:
            for key, value in node.items():
                yield from walk(f"{prefix}.{key}", value)
        elif not (prefix.count(".") == 1 and prefix.endswith(".name")):
            yield prefix, int(node) if isinstance(node, float) and node == int(node) else node

    fields = {}
    for section in ("protocol", "model", "inference", "budget"):
        fields.update(walk(section, cfg[section]))
    fields["precision"], fields["dataset.name"] = cfg["precision"], cfg["dataset"]["name"]
    if cfg["budget"]["seconds"] is not None:
        fields["device"], fields["threads"] = cfg["device"], cfg["threads"]
    if unit:
        fields["split"], fields["seed"] = cfg["split"], cfg["seed"]
    text = json.dumps(
        {"numerics": 1, "data": data_hash, "config": fields}, sort_keys=True, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("words", GOLDEN)
def test_golden_keys(words):
    cfg = config.compose(words.split())
    got = config.run_key(cfg, DATA), config.config_key(cfg, DATA)
    assert got == (independent_key(cfg, DATA, True), independent_key(cfg, DATA, False))
    assert got == GOLDEN[words]


def both(*overrides: str) -> tuple[str, str]:
    cfg = config.compose(list(overrides))
    return config.run_key(cfg, DATA), config.config_key(cfg, DATA)


@pytest.mark.parametrize(
    "overrides",
    [
        ("paths.results=/elsewhere", "paths.mirror=/m"),
        ("device=cpu", "threads=1"),
        ("engine.chunk_rows=500", "engine.tensorboard=true"),
        ("experiment=dsvi2017_dgp2",),  # the same settings under another name
        ("model.name=other", "budget=dsvi2017"),
        ("model.kernel_variance=2",),  # as 2.0
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
        "precision=mixed",
        "protocol.scaling=all",
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
