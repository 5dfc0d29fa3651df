"""Catalogues and papers: the options that stand many to a file, and what is said of a bad one.

golden.json was made when every experiment and dataset had a file of its own, or with a new experiment.
"""

import hashlib
import json
from pathlib import Path

import pytest

from dgpbench import config
from dgpbench.config import expand, tree
from dgpbench.errors import UserError

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
DATA = "0" * 64
ONE_OF_EACH = """
cde_gp cde_cvae dsvi2017_linear dsvi2017_sgp dsvi2017_dgp2_shared dsvi2017_dgp3_thesis
dsvi2017_dgp2_fast_shared iwvi2019_gp_10k iwvi2019_lv_gp_gp_iwvi iwvi2019_cvae_50_50_10k
matthews2016_sgp30 matthews2016_knn natgrad_fixed_student_gd
natgrad_joint_ngd_adam_together natgrad_linesearch_student_lbfgs_sqrt natgrad_naval_beta_adam_fast
natgrad_student_adam natgrad_mnist_ngd_adam natgrad_dgp2_ngd_all star_star_dgp3_5k gi_dgp2 ustyuzhaninov_joint
""".split()


def _key(experiment: str) -> str:
    return config.config_key(config.compose([f"experiment={experiment}"]), DATA)[:12]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_experiments_keep_their_keys(name):
    assert _key(name) == GOLDEN["experiment"][name]


@pytest.mark.slow
def test_all_experiments_keep_their_keys():
    assert {name: _key(name) for name in tree.options("experiment")} == GOLDEN["experiment"]


def test_datasets_keep_their_fields():
    found = {name: tree.read_option(name, path) for name, path in tree.options("dataset").items()}
    del found["csv"], found["openml"]  # forms to fill in, each in a separate file
    hashes = {
        name: hashlib.sha256(json.dumps(node, sort_keys=True).encode()).hexdigest()[:12]
        for name, node in found.items()
    }
    assert hashes == GOLDEN["dataset"]
    for name in ("abalone", "annealing", "song", "arm8"):  # as read, so composed
        assert config.compose([f"dataset={name}"])["dataset"] == found[name]


def test_names_are_found_without_parsing():
    for path in expand.files("dataset", tree.conf_dir()):
        assert expand.names(path, ()) == list(expand.load(path, ()))
    every = [name for group in expand.FOLDERS for name in _names(group)]
    assert len(every) == len(set(every)) == len(GOLDEN["experiment"]) + len(GOLDEN["dataset"])


def _names(group: str) -> list[str]:
    groups = tree.default_groups()
    return [name for path in expand.files(group, tree.conf_dir()) for name in expand.names(path, groups)]


def _write(folder: Path, kind: str, text: str) -> Path:
    (folder / kind).mkdir(parents=True)
    (folder / kind / "mine.yaml").write_text(text)
    return folder


PAPER = """
base: {inference: dsvi, precision: float64, inference.adam.learning_rate: 1e-3}
axes:
  depth:
    "1": {text: one layer, model: sgp}
    "2": {text: two layers, model: dgp2, inference.batch: 7}
  data: {energy: {dataset: energy}, yacht: {dataset: yacht}}
experiments:
  mine_{data}_{depth}: {title: "{depth} on {data}", inference.batch: 9}
"""


def test_a_users_paper(tmp_path):
    folder = _write(tmp_path, "papers", PAPER)
    found = tree.options("experiment", [folder])
    assert list(found) == ["mine_energy_1", "mine_energy_2", "mine_yacht_1", "mine_yacht_2"]
    assert tree.explanation("mine_yacht_2", found["mine_yacht_2"]) == "two layers on yacht"
    cfg = config.compose(["experiment=mine_yacht_2", "seed=3"], [folder])
    assert (cfg["experiment"], cfg["dataset"]["name"], cfg["model"]["name"]) == (
        "mine_yacht_2",
        "yacht",
        "dgp2",
    )
    assert cfg["inference"]["name"] == "dsvi" and cfg["inference"]["batch"] == 7  # the axis wins
    assert cfg["inference"]["adam"]["learning_rate"] == 1e-3 and cfg["precision"] == "float64"
    assert config.compose(["experiment=mine_energy_1"], [folder])["inference"]["batch"] == 9
    changed = config.compose(["experiment=mine_energy_1", "model=dgp3"], [folder])
    assert config.deviations(changed) == [
        "model.layers=[gp,gp,gp] (experiment: [gp])",
    ]


def test_a_users_catalogue(tmp_path):
    text = "shared: {task: regression, path: 'data/{name}-{_year}.csv', n: '{_n}', target: y}\nsets:\n"
    folder = _write(
        tmp_path,
        "catalogue",
        text + "  north: {_year: 2001, _n: 5}\n  south: {_year: 2002, task: binary, _n: null}\n",
    )
    assert list(tree.options("dataset", [folder])) == ["north", "south"]
    fields = {"name": "north", "task": "regression", "path": "data/north-2001.csv", "n": 5, "target": "y"}
    assert config.compose(["dataset=north"], [folder])["dataset"] == fields
    south = {"name": "south", "task": "binary", "path": "data/south-2002.csv", "n": None}
    assert config.compose(["dataset=south"], [folder])["dataset"] == fields | south
    with pytest.raises(UserError, match="unknown dataset 'sout'; did you mean 'south'"):
        config.compose(["dataset=sout"], [folder])


@pytest.mark.parametrize(
    "kind, text, message",
    [
        (
            "papers",
            "experiments: {dsvi2017_dgp2: {model: sgp}}",
            "named like a built-in experiment; rename it",
        ),
        ("catalogue", "sets:\n  energy: {task: regression}\n", "named like a built-in dataset; rename it"),
        (
            "papers",
            "experiments: {'a_{b}': {model: sgp}}",
            "a_{b} names the axis b, which is not in axes: none",
        ),
        ("papers", "experiments: [a]", "experiments must be a mapping"),
        ("papers", "axes: {b: {1: {}}}\nexperiments: {'a_{b}': {}}", "quote a key that is a number"),
        ("papers", "a: [", "mine.yaml cannot be read as yaml"),
        ("catalogue", "sets: {a: {title: '{_x}'}}", "mine.yaml: a: {_x} has no value"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, kind, text, message):
    with pytest.raises(UserError, match=message) as error:
        config.compose(["seed=1"], [_write(tmp_path, kind, text)])
    assert "\n" not in str(error.value)


def test_a_users_experiment_may_build_on_one_of_a_paper(tmp_path):
    (tmp_path / "experiment").mkdir()
    body = "# @package _global_\ndefaults: [dsvi2017_dgp2, {override /model: dgp3}]\nexperiment: mine\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(body)
    cfg = config.compose(["experiment=mine"], [tmp_path])
    ours = config.compose(["experiment=dsvi2017_dgp3"])
    assert cfg["experiment"] == "mine" and config.config_key(cfg, DATA) == config.config_key(ours, DATA)
