"""Public functions: numpydoc sections that fit the signature, and examples that run."""

import doctest
import importlib
import inspect
import re

import pytest

import dgpbench

SECTIONS = re.compile(r"^( *)(Parameters|Returns|Raises|Examples|Attributes)\n\1-{4,}$", re.M)
MODULES = (
    *("dgpbench.api.runs", "dgpbench.api.record_tables", "dgpbench.api.comparisons", "dgpbench.api.fitted"),
    *("dgpbench.api.estimators", "dgpbench.api.distribution", "dgpbench.active_learning.curve_study"),
)
INHERITED = {"score", "get_params", "set_params", "get_metadata_routing", "set_predict_request"}
INHERITED |= {"set_fit_request", "set_score_request"}


def functions():
    """Public functions, classes and their public methods, by name."""
    for name in dgpbench.__all__:
        found = getattr(dgpbench, name)
        found = importlib.import_module("dgpbench.api.runs").sweep if name == "sweep" else found
        if inspect.isclass(found) and issubclass(found, Exception):
            continue
        yield name, found
        if inspect.isclass(found):
            members = inspect.getmembers(found, inspect.isroutine)
            yield from ((f"{name}.{m}", f) for m, f in members if m[0] != "_" and m not in INHERITED)


PUBLIC = dict(functions())


@pytest.mark.parametrize("name", PUBLIC)
def test_sections_fit_the_signature(name):
    found = PUBLIC[name]
    text = inspect.getdoc(found) or ""
    sections = {head: text[at:] for _, head, at in ((m[1], m[2], m.end()) for m in SECTIONS.finditer(text))}
    if inspect.isclass(found):
        wanted = [] if found in (dgpbench.Run, dgpbench.Study) or not hasattr(found, "fit") else found
        parameters = inspect.signature(wanted).parameters if wanted else {}
    else:
        parameters = inspect.signature(found).parameters
        assert "Returns" in sections or inspect.signature(found).return_annotation in ("None", None), name
    names = [n if p.kind != p.VAR_POSITIONAL else f"*{n}" for n, p in parameters.items()]
    names = [n for n in names if n not in ("self", "cls")]
    written = re.findall(r"^(\*?\w+) : ", sections.get("Parameters", "").split("\n\n")[0], re.M)
    assert written == names, name
    if "." not in name and inspect.isfunction(found):
        assert {"Raises", "Examples"} <= set(sections), name


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    done = doctest.testmod(importlib.import_module(module), extraglobs={"dgpbench": dgpbench})
    assert done.attempted and not done.failed
