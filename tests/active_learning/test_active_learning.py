"""Active learning: the rows chosen and the scores beside a plain loop written here, stops, and refusals."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multinomial, norm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))
from own_files import regression, write_csv  # noqa: E402

from dgpbench import cli  # noqa: E402
from dgpbench.active_learning.curve_study import active  # noqa: E402
from dgpbench.active_learning.learning_curves import summary  # noqa: E402
from dgpbench.active_learning.selection import by_chance, clipped, entropy, next_row  # noqa: E402
from dgpbench.errors import UserError  # noqa: E402

NEAREST = """
import numpy as np
from dgpbench.evaluate.predictive import Predictive


class Nearest:
    '''The label of the nearest row, less certain the farther it is; FAIL_AT rows make it fail.'''

    def __init__(self, cfg):
        self.fail_at = cfg["model"]["fail_at"]

    def fit(self, split, run):
        if split.n_train == self.fail_at:
            raise ZeroDivisionError("unlucky")
        self.X, self.Y, self.classes = split.X_train, split.Y_train, split.n_classes

    def predict(self, X, samples, seed):
        distance = np.linalg.norm(X[:, None] - self.X[None], axis=2)
        nearest, far = self.Y[distance.argmin(1)], distance.min(1)[:, None]
        if not self.classes:
            return Predictive(mean=nearest[None], var=(0.1 + far**2)[None])
        sure = np.exp(-far)
        label = np.eye(self.classes)[nearest[:, 0].astype(int)]
        return Predictive(probs=sure * label + (1 - sure) / self.classes)

    def parameters(self):
        return {}

    def load_parameters(self, values):
        pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with the model above, a file of quantities and one of classes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_nearest.py").write_text(NEAREST)
    (tmp_path / "conf" / "model").mkdir(parents=True)
    yaml = "# Nearest.\n_target_: own_nearest.Nearest\nname: nearest\nclosed_form: true\nfail_at: -1\n"
    (tmp_path / "conf" / "model" / "nearest.yaml").write_text(yaml)
    columns = regression(40)
    columns = {name: columns[name] for name in "aby"}
    write_csv(tmp_path / "q.csv", columns)
    write_csv(tmp_path / "c.csv", columns | {"y": np.digitize(columns["y"], [2.0, 10.0])})
    return tmp_path


def words(file: str, *more: str) -> list[str]:
    return ["model=nearest", "dataset=csv", f"dataset.path={file}", "dataset.target=y", *more]


def plain_loop(X, Y, iterations, classes, initial=3):
    """The tasks of bayesian_benchmarks in their own words: numpy and scipy, the same model by hand."""
    seen = np.zeros(len(X), bool)
    seen[:initial] = True
    lines = []
    for _ in range(iterations):
        distance = np.sqrt(((X[:, None] - X[seen][None]) ** 2).sum(2))
        nearest, far = Y[seen][distance.argmin(1)], distance.min(1)
        if classes:
            p = np.exp(-far)[:, None] * np.eye(classes)[nearest.astype(int)]
            p = np.clip(p + (1 - np.exp(-far))[:, None] / classes, 1e-12, 1 - 1e-12)
            p /= p.sum(1, keepdims=True)
            uncertain = multinomial.entropy(n=1, p=p)
            logp = multinomial.logpmf(np.eye(classes)[Y.astype(int)], n=1, p=p)
            good = (p.argmax(1) == Y).astype(float)
        else:
            uncertain = 0.1 + far**2
            logp, good = norm.logpdf(Y, nearest, np.sqrt(uncertain)), (Y - nearest) ** 2
        uncertain[seen] = -np.inf
        chosen = int(np.argmax(uncertain))
        seen[chosen] = True
        lines.append((chosen, logp[~seen].mean(), logp[seen].mean(), logp.mean(), good[~seen].mean()))
    return lines


@pytest.mark.parametrize(
    "file, task, score", [("q.csv", "regression", "rmse"), ("c.csv", "auto", "accuracy")]
)
def test_rows_and_scores_are_those_of_the_plain_loop(own, file, task, score):
    settings = ("protocol=bayesian_benchmarks", "split=2", f"dataset.task={task}")
    found = active(*words(file, *settings), iterations=6, pool="all", config_dirs=[own / "conf"])
    table = np.loadtxt(own / file, delimiter=",", skiprows=1)
    order = np.arange(len(table))
    np.random.RandomState(2).shuffle(order)  # as bayesian_benchmarks divides the rows
    shuffled = table[order]
    X = (shuffled[:, :2] - table[:, :2].mean(0)) / table[:, :2].std(0)
    classes = 3 if score == "accuracy" else 0
    mean, sd = (0.0, 1.0) if classes else (table[:, 2].mean(), table[:, 2].std())
    lines = plain_loop(X, (shuffled[:, 2] - mean) / sd, 6, classes)
    assert list(found.row) == [order[line[0]] for line in lines]
    assert list(found.labels) == [3, 4, 5, 6, 7, 8] and "test_loglik" not in found
    for column, i in (("rest_loglik", 1), ("seen_loglik", 2), ("pool_loglik", 3)):
        assert np.allclose(found[column] + np.log(sd), [line[i] for line in lines], rtol=1e-6), column
    last = [line[4] if classes else sd * line[4] ** 0.5 for line in lines]
    assert np.allclose(found[f"rest_{score}"], last, rtol=1e-6)


def test_a_curve_goes_on_where_it_stopped_and_test_rows_are_held_out(own, capsys):
    whole = active(*words("q.csv"), iterations=5, config_dirs=[own / "conf"])
    path = next((own / "results" / "active").rglob("*.json"))
    content = json.loads(path.read_text())
    assert len(content["steps"]) == 5 and content["options"]["select"] == "variance"
    content["steps"] = content["steps"][:2]
    path.write_text(json.dumps(content))
    args = ["active", *words("q.csv"), "--config-dir", "conf"]
    assert cli.main([*args, "--iterations", "5", "--csv", "steps.csv", "--plot", "figures"]) == 0
    again = json.loads(path.read_text())["steps"]
    kept = [name for name in whole if name in again[0] and name != "seconds"]
    assert [[step[name] for name in kept] for step in again] == whole[kept].to_numpy().tolist()
    assert again[0]["seconds"] == content["steps"][0]["seconds"]  # read, not run
    out = capsys.readouterr().out
    assert (
        "csv: RMSE" in out.replace("q.csv", "csv")
        and (own / "figures" / "figure-active-test_rmse.png").exists()
    )
    assert len((own / "steps.csv").read_text().splitlines()) == 6
    path.write_text('{"schema": 1, "key": "no')  # a file that is none of ours is begun anew
    again = active(*words("q.csv"), iterations=2, config_dirs=[own / "conf"])
    assert list(again.row) == list(whole.row[:2])


def test_chance_is_a_baseline_that_depends_on_split_and_seed_only(own):
    found = active(
        *words("q.csv", "split=0,1"), select=["auto", "random"], iterations=3, config_dirs=[own / "conf"]
    )
    assert list(dict.fromkeys(found.method)) == ["nearest, variance", "nearest, random"]
    table = summary(found, "test_rmse")
    pair = found[(found["select"] == "random") & (found.labels == 4)].test_rmse
    line = table[(table.method == "nearest, random") & (table.labels == 4)].iloc[0]
    assert line.n == 2 and line["mean"] == pytest.approx(pair.mean())
    assert line.error == pytest.approx(abs(pair.iloc[0] - pair.iloc[1]) / 2)  # s / sqrt(2) of two
    assert np.array_equal(by_chance(5, 1, 2, 3), by_chance(5, 1, 2, 3))
    assert not np.array_equal(by_chance(5, 1, 2, 3), by_chance(5, 1, 2, 4))


def test_entropy_and_choice():
    probs = clipped(np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]]))
    assert entropy(probs) == pytest.approx([0, np.log(2), 0.25 * np.log(4) + 0.75 * np.log(4 / 3)], abs=1e-9)
    assert next_row(np.array([3.0, 2.0, 2.0]), np.array([True, False, False])) == 1


def test_a_model_that_fails_ends_its_own_curve_only(own, capsys):
    args = ["active", *words("q.csv", "model.fail_at=-1,5"), "--config-dir", "conf", "--iterations", "4"]
    assert cli.main(args) == 1
    printed = capsys.readouterr()
    assert "ended after 2 steps: ZeroDivisionError: unlucky" in printed.err
    assert "nearest, model.fail_at=5" in printed.out and printed.out.count("\n") > 8


@pytest.mark.parametrize(
    "more, text",
    [
        (["--initial", "36"], "36 initial rows leave none to choose: the pool has 36"),
        (["--initial", "0"], "at least one initial row"),
        (["--select", "entropy"], "quantities have a variance, no entropy"),
        (["--select", "varianse"], "did you mean 'variance'"),
        (["--metric", "test_rsme"], "did you mean 'test_rmse'"),
        (["--metric", "test_accuracy"], "these curves have no test_accuracy; they have test_loglik"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(own, capsys, more, text):
    assert cli.main(["active", *words("q.csv"), "--config-dir", "conf", "--iterations", "1", *more]) == 2
    err = capsys.readouterr().err.strip().splitlines()
    assert text in err[-1]


def test_unknown_pools_are_refused_from_python():
    with pytest.raises(UserError, match="pool=none is not allowed"):
        active("model=linear", pool="none")
