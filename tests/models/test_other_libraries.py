"""Models of other libraries: stored next to the record, loaded only if allowed, with the same numbers."""

import hashlib
import io
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

import dgpbench
from dgpbench import ModelFile, UserError
from dgpbench.api.record_tables import read_export
from dgpbench.cli import main
from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.experiment import rescore, run_unit
from dgpbench.store import read
from dgpbench.store.scan import Unit, read_record, scan
from dgpbench.store.verify import verify
from dgpbench.store.write import write_unit
from dgpbench.sweep.gc import garbage
from dgpbench.sweep.merge import merge

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "models"
N = 60
DIR = ["--config-dir", str(EXAMPLES)]


@pytest.fixture(autouse=True)
def importable(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(tmp_path))


def table():
    rng = np.random.RandomState(0)
    X = rng.randn(N, 2) * [1.0, 20.0]
    return np.hstack([X, 5 + 3 * np.sin(X[:, :1]) + 0.1 * X[:, 1:] + 0.1 * rng.randn(N, 1)])


def config(folder, *words, model="forest", config_dir=EXAMPLES):
    file = folder / "data.csv"
    np.savetxt(file, table(), delimiter=",", fmt="%.17g")
    paths = [
        f"paths.results={folder / 'results'}",
        f"paths.datasets={folder / 'datasets'}",
        "paths.mirror=null",
    ]
    data = ["dataset=csv", f"dataset.path={file}", "protocol.draws=100", "threads=1"]
    return compose([f"model={model}", *data, *paths, *words], [config_dir])


def run(folder, *words, **more):
    unit, _ = run_unit(config(folder, *words, **more))
    assert unit.record["status"] == "done", unit.record["reason"]
    return unit


def split():
    """Protocol clean without dgpbench: rows shuffled by seed 0, scaled by the training rows."""
    data, order = table(), np.arange(N)
    np.random.RandomState(0).shuffle(order)
    train, test = order[: int(0.9 * N)], order[int(0.9 * N) :]
    mean, sd = data[train].mean(0), data[train].std(0)
    scaled = (data - mean) / sd
    return scaled[train, :2], scaled[train, 2], scaled[test, :2], data[test], mean[2], sd[2]


def own_model(folder, body, name="own"):
    """A model whose `parameters` and `load_parameters` are `body`, and its yaml file."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / f"{name}_model.py").write_text(OWN + body)
    (folder / "model" / f"{name}.yaml").write_text(
        f"_target_: {name}_model.Own\nname: {name}\nclosed_form: true\n"
    )


OWN = """
import numpy as np
from dgpbench import ModelFile
from dgpbench.evaluate.predictive import Predictive


class Own:
    def __init__(self, cfg):
        self.w = np.zeros((2, 1))

    def fit(self, split, run):
        self.w = np.linalg.lstsq(split.X_train, split.Y_train, rcond=None)[0]

    def predict(self, X, samples, seed):
        mean = (X @ self.w)[None]
        return Predictive(mean=mean, var=np.full_like(mean, 0.1))

    def load_parameters(self, values):
        self.w = values["w"]

"""


def test_forest_equals_scikit_learn_and_its_file_gives_the_same_predictions(tmp_path):
    from sklearn.ensemble import RandomForestRegressor

    unit = run(tmp_path)
    X, y, X_test, test, shift, scale = split()
    data = load_split(config(tmp_path), lambda text: None)
    assert data.X_train == pytest.approx(X) and data.Y_train[:, 0] == pytest.approx(y)
    X, y, X_test = data.X_train, data.Y_train[:, 0], data.X_test  # to the last bit: ties decide in trees
    forest = RandomForestRegressor(100, oob_score=True, random_state=0).fit(X, y)
    mean = forest.predict(X_test) * scale + shift
    assert unit.record["metrics"]["test_rmse"] == pytest.approx(np.sqrt(np.mean((mean - test[:, 2]) ** 2)))
    noise = np.mean((y - forest.oob_prediction_) ** 2) * scale**2
    loglik = np.mean(-0.5 * np.log(2 * np.pi * noise) - (mean - test[:, 2]) ** 2 / (2 * noise))
    assert unit.record["metrics"]["test_loglik"] == pytest.approx(loglik)

    content = (unit.folder / "model.joblib").read_bytes()
    entry = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert unit.record["files"]["model.joblib"] == entry
    with pytest.raises(UserError, match=r"add --allow-model forest"):
        dgpbench.load(unit)
    with pytest.raises(UserError, match=r"add --allow-model forest"):
        dgpbench.load(unit, allow_models=["other"])
    found = dgpbench.load(unit, allow_models=["forest"]).predict(test[:, :2])
    assert found.mean == pytest.approx(mean, rel=1e-12)
    assert found.mean == pytest.approx(read.predictions(unit)["mean"], rel=1e-12)

    with pytest.raises(UserError, match="--allow-model forest"):
        rescore(unit)
    again = rescore(unit, allow_models=["forest"])
    assert again.record["metrics"] == unit.record["metrics"]


def test_predict_asks_for_permission_in_one_line_and_then_works(tmp_path, capsys, monkeypatch):
    unit = run(tmp_path)
    (tmp_path / "new.csv").write_text("0.5,3\n-1,10\n")
    monkeypatch.chdir(tmp_path)
    words = ["predict", str(unit.folder), "new.csv"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "a pickle, which can run any code" in said
    assert "add --allow-model forest" in said
    assert main([*words, "--allow-model", "forest"]) == 0
    rows = capsys.readouterr().out.splitlines()
    mean = dgpbench.load(unit, allow_models=["forest"]).predict(np.array([[0.5, 3], [-1, 10]])).mean
    assert [float(row.split(",")[0]) for row in rows[1:]] == pytest.approx(mean, rel=1e-9)


class Payload:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.slow
@pytest.mark.parametrize("claim", [{}, {"trust": {"models": ["forest"]}}])
def test_a_hostile_file_is_loaded_by_no_command_without_permission(claim, tmp_path, monkeypatch, capsys):
    """Record and file agree with one another, and the record's config claims the permission itself."""
    unit, trap = run(tmp_path), tmp_path / "sprung"
    buffer = io.BytesIO()
    joblib.dump(Payload(trap), buffer)
    record = unit.record | {"config": unit.record["config"] | claim}
    tables = {"predictions": read.predictions(unit), "draws": read.draws(unit)}
    bad = write_unit(
        tmp_path / "results",
        record,
        **tables,
        params=read.arrays(unit),
        model=ModelFile("joblib", buffer.getvalue()),
        force=True,
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("0.5,3\n")
    folder = str(bad.folder)
    for words, code in (
        (["show"], 0),
        (["predict", folder, "new.csv"], 2),
        (["rescore", "--allow", "forest"], 1),
        (["verify"], 0),
        (["merge", "results", "--results", "other", "--allow", "forest"], 1 if claim else 0),
        (["submit", "results", "--check"], 1),
        (["compare", "model=forest", "dataset=csv", f"dataset.path={tmp_path / 'data.csv'}", *DIR], 0),
        (["report", "--results", "results", "--no-reference"], 0),
        (["plot", folder], 0),
        (["gc"], 0),
    ):
        found = main(words)
        assert found == code, (words, capsys.readouterr())
        assert not trap.exists(), words
    with pytest.raises(Exception):  # noqa: B017 - the payload is no model; the trap works
        dgpbench.load(bad, allow_models=["forest"]).predict(np.zeros((1, 2)))
    assert trap.exists()


def test_the_file_is_merged_verified_replaced_and_collected_like_the_others(tmp_path):
    unit, problems = run(tmp_path), []
    assert verify(tmp_path / "results", False, problems.append) == 1 and problems == []
    counts = merge(tmp_path / "results", tmp_path / "theirs", problems.append, read_export, ["forest"])
    assert counts["taken"] == 1 and problems == []
    (taken,) = scan(tmp_path / "theirs", reference=False)
    assert (taken.folder / "model.joblib").read_bytes() == (unit.folder / "model.joblib").read_bytes()

    (taken.folder / "model.joblib").write_bytes(b"other")
    verify(tmp_path / "theirs", False, problems.append)
    assert len(problems) == 1 and "model.joblib is missing or not the file its record names" in problems[0]
    with pytest.raises(UserError, match="not the file its record names"):
        dgpbench.load(taken, allow_models=["forest"])
    problems.clear()
    assert (
        merge(tmp_path / "theirs", tmp_path / "third", problems.append, read_export, ["forest"])["damaged"]
        == 1
    )

    again, _ = run_unit(config(tmp_path), force=True)
    assert again.record["files"]["model.joblib"]["name"] == "model.b.joblib"
    assert os.path.samefile(again.folder / "model.b.joblib", again.folder / "model.joblib")
    shutil.copy(again.folder / "model.b.joblib", again.folder / "model.b.pt")
    os.utime(again.folder / "model.b.pt", (0, 0))
    assert [path.name for path, _ in garbage(tmp_path / "results", 30)] == ["model.b.pt"]
    assert read_record(again.folder)["status"] == "done"


@pytest.mark.parametrize(
    "value, reason",
    [
        ('b"abc"', "parameters() returned bytes; wrap them"),
        ('ModelFile("pickle", b"abc")', "unknown model format 'pickle'; use joblib, torch, onnx"),
        ('ModelFile("joblib", b"")', "must be non-empty bytes"),
        ('ModelFile("onnx", "text")', "must be non-empty bytes, not str"),
        ('ModelFile("onnx", bytes(1001))', "at most 0 MB are stored"),
        ('{"w": np.array([{}])}', "would need pickle"),
    ],
)
def test_what_cannot_be_stored_is_a_failed_run_with_the_reason(value, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(read, "MAX_FILE", 1000)
    own_model(tmp_path, f"    def parameters(self):\n        return {value}\n", name=f"own{abs(hash(value))}")
    name = f"own{abs(hash(value))}"
    unit, _ = run_unit(config(tmp_path, model=name, config_dir=tmp_path))
    assert unit.record["status"] == "failed" and reason in unit.record["reason"]
    assert not [name for name in os.listdir(unit.folder) if name.startswith("model")]


def test_a_damaged_file_is_one_line(tmp_path):
    unit = run(tmp_path)
    tables = {"predictions": read.predictions(unit), "draws": read.draws(unit), "params": read.arrays(unit)}
    file = ModelFile("joblib", b"no pickle")
    bad = write_unit(tmp_path / "results", unit.record, **tables, model=file, force=True)
    with pytest.raises(UserError, match=r"model.b.joblib cannot be loaded|model.joblib cannot be loaded"):
        dgpbench.load(bad, allow_models=["forest"])


def test_a_record_with_two_model_files_or_too_large_a_one_is_none(tmp_path):
    unit = run(tmp_path)
    entry = unit.record["files"]["model.joblib"]
    two = unit.record | {"files": unit.record["files"] | {"model.pt": entry}}
    with pytest.raises(ValueError, match="field files"):
        write_unit(tmp_path / "results", two)


def test_an_estimator_of_such_a_model_can_be_pickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = (
        "    def parameters(self):\n        import io, joblib\n        b = io.BytesIO()\n"
        '        joblib.dump({"w": self.w}, b)\n        return ModelFile("joblib", b.getvalue())\n'
    )
    own_model(tmp_path, body, name="dumped")
    data = table()
    made = dgpbench.Regressor("linear", overrides=["model._target_=dumped_model.Own"]).fit(
        data[:, :2], data[:, 2]
    )
    expected = made.predict(data[:, :2])
    assert np.std(expected) > 0.5
    assert np.array_equal(pickle.loads(pickle.dumps(made)).predict(data[:, :2]), expected)


# ---- PyTorch, GPyTorch, ONNX ---------------------------------------------------------------------------


def test_torch_network_equals_numpy_and_its_state_dict_gives_the_same_predictions(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-libraries`")
    unit = run(tmp_path, "model.epochs=50", model="torch_network")
    state = torch.load(unit.folder / "model.pt", weights_only=True)
    W, b, V, c = (state[f"{layer}.{kind}"].numpy() for layer in (0, 2) for kind in ("weight", "bias"))
    _, _, X_test, test, shift, scale = split()
    mean = (np.tanh(X_test @ W.T + b) @ V.T + c)[:, 0] * scale + shift
    assert unit.record["metrics"]["test_rmse"] == pytest.approx(np.sqrt(np.mean((mean - test[:, 2]) ** 2)))
    with pytest.raises(UserError, match="model.pt, a file of another library.*--allow-model torch_network"):
        dgpbench.load(unit)
    found = dgpbench.load(unit, allow_models=["torch_network"]).predict(test[:, :2])
    assert found.mean == pytest.approx(mean, rel=1e-10)
    noise = np.exp(state["log_var"].item()) * scale**2
    assert found.sd == pytest.approx(np.full(len(mean), noise**0.5), rel=1e-10)


def test_a_state_dict_with_more_than_tensors_fails_when_it_is_stored(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: `make test-libraries`")
    body = (
        "    def parameters(self):\n        import pathlib, torch\n"
        '        return {"w": torch.zeros(2), "rest": pathlib.PurePosixPath("x"), "f": np.sum}\n'
    )
    own_model(tmp_path, body, name="odd")
    unit, _ = run_unit(config(tmp_path, model="odd", config_dir=tmp_path))
    assert unit.record["status"] == "failed" and "holds more than tensors" in unit.record["reason"]


def test_a_hostile_torch_file_runs_nothing_even_with_permission(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-libraries`")
    unit = run(tmp_path, "model.epochs=5", model="torch_network")
    buffer, trap = io.BytesIO(), tmp_path / "sprung"
    torch.save({"0.weight": Payload(trap)}, buffer)
    tables = {"predictions": read.predictions(unit), "draws": read.draws(unit), "params": read.arrays(unit)}
    file = ModelFile("torch", buffer.getvalue())
    bad = write_unit(tmp_path / "results", unit.record, **tables, model=file, force=True)
    with pytest.raises(UserError, match="cannot be loaded"):
        dgpbench.load(bad, allow_models=["torch_network"])
    assert not trap.exists()


def test_gpytorch_equals_the_formulas_and_its_state_dict_gives_the_same_predictions(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-libraries`")
    pytest.importorskip("gpytorch", reason="GPyTorch is not installed: `make test-libraries`")
    unit = run(tmp_path, "model.iterations=20", model="gpytorch_gp")
    assert any("model.pt keeps them" in note for note in unit.record["notes"])
    state = torch.load(unit.folder / "model.pt", weights_only=True)
    X, y, X_test, test, shift, scale = split()

    def positive(name):
        return np.log1p(np.exp(state[name].numpy()))

    lengthscale, variance = positive("kernel.base_kernel.raw_lengthscale"), positive("kernel.raw_outputscale")
    noise, constant = positive("likelihood.noise_covar.raw_noise") + 1e-4, state["mean.raw_constant"].item()

    def kernel(A, B):
        return variance * np.exp(-0.5 * (((A[:, None] - B) / lengthscale) ** 2).sum(-1))

    K = kernel(X, X) + noise * np.eye(len(X))
    Ks = kernel(X_test, X)
    mean = constant + Ks @ np.linalg.solve(K, y - constant)
    var = variance - np.einsum("ij,ji->i", Ks, np.linalg.solve(K, Ks.T)) + noise
    found = dgpbench.load(unit, allow_models=["gpytorch_gp"]).predict(test[:, :2])
    assert found.mean == pytest.approx(mean * scale + shift, rel=1e-5)
    assert found.sd == pytest.approx(np.sqrt(var) * scale, rel=1e-4)
    assert found.mean == pytest.approx(read.predictions(unit)["mean"], rel=1e-8)


def test_onnx_bytes_reach_the_model_as_they_were_stored(tmp_path):
    pytest.importorskip("onnx", reason="ONNX is not installed: `make test-libraries`")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: `make test-libraries`")
    body = """
    def parameters(self):
        from onnx import TensorProto, helper, numpy_helper

        W = numpy_helper.from_array(self.w, "W")
        sizes = {"X": [None, 2], "Y": [None, 1]}
        X, Y = (helper.make_tensor_value_info(n, TensorProto.DOUBLE, size) for n, size in sizes.items())
        graph = helper.make_graph([helper.make_node("MatMul", ["X", "W"], ["Y"])], "g", [X], [Y], [W])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return ModelFile("onnx", made.SerializeToString())

    def load_parameters(self, content):
        import onnxruntime

        self.session = onnxruntime.InferenceSession(content)

    def predict(self, X, samples, seed):
        if not hasattr(self, "session"):
            return super().predict(X, samples, seed)
        mean = self.session.run(None, {"X": np.array(X, np.float64)})[0][None]
        return Predictive(mean=mean, var=np.full_like(mean, 0.1))
"""
    base = OWN.replace("class Own:", "class Base:") + "\n\nclass Own(Base):"
    (tmp_path / "model").mkdir()
    (tmp_path / "onnx_model.py").write_text(base + body)
    (tmp_path / "model" / "line.yaml").write_text("_target_: onnx_model.Own\nname: line\nclosed_form: true\n")
    unit = run(tmp_path, model="line", config_dir=tmp_path)
    X, y, _, test, shift, scale = split()
    X_test = split()[2]
    expected = X_test @ np.linalg.lstsq(X, y, rcond=None)[0] * scale + shift
    assert (unit.folder / "model.onnx").stat().st_size == unit.record["files"]["model.onnx"]["bytes"]
    found = dgpbench.load(unit, allow_models=["line"]).predict(test[:, :2])
    assert found.mean == pytest.approx(expected, rel=1e-9)


# ---- the documentation ---------------------------------------------------------------------------------


def test_the_page_shows_the_example_files():
    sys.path.insert(0, str(ROOT / "tests" / "docs"))
    import docs_page

    shown = docs_page.files("other-libraries.md")
    names = ["forest", "torch_network", "gpytorch_gp"]
    assert list(shown) == [file for name in names for file in (f"{name}.py", f"model/{name}.yaml")]
    for name, text in shown.items():
        assert text == (EXAMPLES / name).read_text(), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "model, package", [("forest", "sklearn"), ("torch_network", "torch"), ("gpytorch_gp", "gpytorch")]
)
def test_the_examples_run_from_the_command_line(model, package, tmp_path):
    pytest.importorskip(package, reason=f"{package} is not installed: `make test-libraries`")
    shutil.copytree(
        EXAMPLES, tmp_path / "here", ignore=shutil.ignore_patterns("results", "datasets", "__pycache__")
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("DGPBENCH_")}
    env |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    (tmp_path / "here" / "new.csv").write_text("0.25\n")

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "dgpbench", *words],
            cwd=tmp_path / "here",
            env=env,
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout, done.stderr

    code, _, said = command("run", "--config-dir", ".", f"model={model}", "dataset=step", "dataset.n=100")
    assert code == 0, said
    (folder,) = (tmp_path / "here").glob("results/*/*/*/*")
    assert Unit(read_record(folder), folder / "record.json").record["metrics"]["test_rmse"] < 1
    code, _, said = command("predict", str(folder), "new.csv")
    assert code == 2 and said.count("\n") == 1 and f"--allow-model {model}" in said
    code, table, said = command("predict", str(folder), "new.csv", "--allow-model", model)
    assert code == 0 and table.startswith("mean,sd"), said
