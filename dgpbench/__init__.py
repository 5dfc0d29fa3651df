"""dgpbench: fair, fast, repeatable comparisons of deep Gaussian processes.

    import dgpbench

    run = dgpbench.run("model=dgp2", "dataset=energy")
    dgpbench.load(run).predict(X)
    dgpbench.sweep("model=sgp,dgp2", "dataset=energy,concrete")
    dgpbench.results("dataset=energy")
    dgpbench.compare("model=sgp,dgp2", "dataset=energy,concrete").frame()
    dgpbench.tune("dataset=energy", "inference.adam.learning_rate=log(1e-3,1e-1)", trials=20)
    dgpbench.active("model=gpr", "dataset=energy", iterations=20)
    dgpbench.Regressor("dgp2", num_inducing=50).fit(X, y).predict(X, return_std=True)

Names are imported when they are first used: `import dgpbench` itself loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgpbench.active_learning.curve_study import active
    from dgpbench.api.comparisons import Compared, compare
    from dgpbench.api.distribution import Distribution
    from dgpbench.api.estimators import Classifier, Regressor
    from dgpbench.api.fitted import Fitted, Prediction, load
    from dgpbench.api.record_tables import results
    from dgpbench.api.runs import Run, run, sweep
    from dgpbench.errors import RunFailed, UserError
    from dgpbench.store.read import ModelFile
    from dgpbench.tuning.study import Study, tune

__version__ = "0.1.0"

_HOME = {
    "Classifier": "api.estimators",
    "Compared": "api.comparisons",
    "Distribution": "api.distribution",
    "Fitted": "api.fitted",
    "ModelFile": "store.read",
    "Prediction": "api.fitted",
    "Regressor": "api.estimators",
    "Run": "api.runs",
    "RunFailed": "errors",
    "Study": "tuning.study",
    "UserError": "errors",
    "active": "active_learning.curve_study",
    "compare": "api.comparisons",
    "load": "api.fitted",
    "results": "api.record_tables",
    "run": "api.runs",
    "tune": "tuning.study",
}
__all__ = [
    "Classifier",
    "Compared",
    "Distribution",
    "Fitted",
    "ModelFile",
    "Prediction",
    "Regressor",
    "Run",
    "RunFailed",
    "Study",
    "UserError",
    "active",
    "compare",
    "load",
    "results",
    "run",
    "sweep",
    "tune",
]


def run_sweep(*overrides: str, **options):
    """`dgpbench.sweep`: the package of that name is what Python finds, and calls this."""
    return import_module("dgpbench.api.runs").sweep(*overrides, **options)


def __getattr__(name: str):
    if name == "sweep":  # the package of that name, which can be called
        return import_module("dgpbench.sweep")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
