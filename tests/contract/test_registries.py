"""The contract of every kernel, likelihood, metric and figure that is built in, and of broken plug-ins."""

import pytest

from dgpbench.api.contracts import check_entry
from dgpbench.config import compose, plugins
from dgpbench.store.trust import check_config
from dgpbench.sweep.trial import BROKEN

SLOW = ("ordinal",)  # 20 s of quadrature
ENTRIES = [
    pytest.param(entry, marks=pytest.mark.slow if name in SLOW else (), id=f"{kind}-{name}")
    for kind in plugins.HOMES
    for name, entry in plugins.built_in(kind).items()
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_built_in(entry):
    found = list(check_entry(entry))
    assert len(found) > 1 and not [finding for finding in found if finding.status == BROKEN], found


def broken(folder, source, kind, name):
    """The step and the message at which a plug-in breaks its contract."""
    (folder / f"{name}_file.py").write_text(source)
    plugins.use([folder])
    (last,) = [f for f in check_entry(plugins.own_entries(kind, [folder])[name]) if f.status == BROKEN]
    return last.step, last.text


KERNEL = """
from dgpbench.gp.kernels.base import kernel
from dgpbench.gp.kernels.covariances import RBF
import tensorflow as tf

@kernel("{name}")
class Own(RBF):
    def {method}(self, prepared, *points):
        return {factor} * super().{method}(prepared, *points)
"""


@pytest.mark.parametrize(
    ("method", "factor", "step"),
    [("gram", "-1.0", "gram"), ("diagonal", "2.0", "agreement"), ("between", "0.5", "agreement")],
)
def test_a_kernel_with_a_wrong_sign_or_factor_is_found(tmp_path, method, factor, step):
    name = f"wrong_{method}"
    source = KERNEL.format(name=name, method=method, factor=factor)
    assert broken(tmp_path, source, "kernel", name)[0] == step


METRIC = """
import numpy as np
from dgpbench.evaluate.metrics import metric

@metric("{name}", "Wrong", better="lower"{more})
def own(y, mean):
    {body}
"""


@pytest.mark.parametrize(
    ("name", "more", "body", "text"),
    [
        ("test_text", "", "return 'low'", "returned a str, expected a number"),
        ("test_nan", "", "return np.nan", "metric test_nan is nan"),
        ("test_raises", "", "return 1 / 0", "ZeroDivisionError: division by zero"),
        ("test_negative", ", span=(0.0, 1.0)", "return -1.0", "outside (0.0, 1.0)"),
        ("own_name", "", "return 1.0", "must begin with test_"),
        ("test_way", ", tasks=('regresion',)", "return 1.0", "unknown task 'regresion'"),
    ],
)
def test_a_wrong_metric_is_found(tmp_path, name, more, body, text):
    source = METRIC.format(name=name, more=more, body=body)
    assert text in broken(tmp_path, source, "metric", name)[1]


def test_names_are_read_without_running_the_file(tmp_path):
    (tmp_path / "loud.py").write_text("@metric('test_loud', 'Loud')\ndef loud(y): ...\n1 / 0\n")
    (tmp_path / "not_python.py").write_text("@metric('x' def\n")
    assert list(plugins.own_entries("metric", [tmp_path])) == ["test_loud"]
    (tmp_path / "again.py").write_text("@metric('test_loud', 'Loud')\ndef loud(y): ...\n")
    with pytest.raises(plugins.UserError, match="rename one of them"):
        plugins.own_entries("metric", [tmp_path])
    (tmp_path / "again.py").write_text("@metric('test_rmse', 'Loud')\ndef loud(y): ...\n")
    with pytest.raises(plugins.UserError, match="named like a built-in metric"):
        plugins.own_entries("metric", [tmp_path])


def test_records_name_no_code_and_replace_nothing_that_is_built_in():
    def cfg(**sections):
        made = compose(["model=sgp", "dataset=boston"])
        return made | {name: made[name] | values for name, values in sections.items()}

    targets = {"own": {"_target_": "os.system"}}
    with pytest.raises(ValueError, match="model.kernels.own._target_=os.system is code of others"):
        check_config(cfg(model={"kernels": targets}))
    with pytest.raises(ValueError, match="likelihood._target_=laplace.Laplace is code of others"):
        check_config(cfg(likelihood={"name": "laplace", "_target_": "laplace.Laplace"}))
    with pytest.raises(ValueError, match="likelihood.name=laplace is no likelihood"):
        check_config(cfg(likelihood={"name": "laplace"}))
    plugins.declare("kernel", {"rbf": {"_target_": "os.system"}})
    assert plugins.entries("kernel")["rbf"].target == "dgpbench.gp.kernels.covariances.RBF"
