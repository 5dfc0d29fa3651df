"""The guide docs/add-inference.md runs; a method that goes wrong is recorded with its place."""

import docs_page
import numpy as np
import pytest

PAGE = "add-inference.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("your_inference")
    docs_page.write(PAGE, place)
    return place


def test_fifty_lines():
    found = docs_page.files(PAGE)
    assert list(found) == ["tempered.py", "inference/tempered.yaml"]
    lines = [line for text in found.values() for line in text.splitlines() if line.strip()]
    assert len(lines) <= 54 and max(map(len, lines)) <= 110


def test_two_steps_by_hand(folder, monkeypatch):
    """The objective with its KL weighted by beta, and momentum, against plain differentiation and NumPy."""
    import tensorflow as tf

    from dgpbench.config import compose
    from dgpbench.config.classes import create_method
    from dgpbench.engine.spec import StepSpec
    from dgpbench.engine.trainer import Trainer
    from dgpbench.gp.deep_gp import penalties
    from dgpbench.gp.parameters import constrain, unconstrain
    from dgpbench.gp.start import build
    from dgpbench.inference.bounds import VI
    from dgpbench.inference.gradients import lower_bound

    monkeypatch.syspath_prepend(str(folder))
    words = ["inference=tempered", "inference.beta=0.3", "inference.keep=0.5", "inference.rate=0.001"]
    cfg = compose([*words, "model=sgp", "model.num_inducing=5", "precision=float64"], [folder])
    rng = np.random.RandomState(0)
    X, Y = rng.randn(12, 2), rng.randn(12, 1)
    model, values, fixed, _ = build(cfg, X, Y, 0)
    method = create_method(cfg)
    bound = method.bound(model)
    raw = unconstrain(values, bound.constraints())
    shapes = tuple((name, v.shape) for name, v in raw.items())
    trainer = Trainer(StepSpec(bound, method.update(bound), shapes, frozenset(fixed), 12, True, xla=False))
    trainer.reset(raw, method.rates(), seed=0, num_data=12, jitter=1e-6, data=(X, Y))
    velocity = {name: np.zeros(v.shape) for name, v in raw.items()}
    for step in range(2):
        tensors = {name: tf.constant(v) for name, v in raw.items()}
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            columns = tf.constant(X.T), tf.constant(Y.T), tf.zeros((1, 12), tf.float64)
            kl = sum(penalties(model, constrain(tensors, model.constraints())).values())
            value = lower_bound(VI(model), tensors, *columns, num_data=12) + 0.7 * kl
        for name, g in tape.gradient(value, tensors).items():
            velocity[name] = 0.5 * velocity[name] + 0.001 * g.numpy()
            raw[name] = raw[name] + velocity[name]
        report = trainer.run(step, np.zeros((1, 0), np.int32))
        assert report["bound_last"] == pytest.approx(float(value), rel=1e-10)
    for name, variable in trainer.oracle.raw.items():
        np.testing.assert_allclose(variable.numpy(), raw[name], rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_commands_of_the_page(folder):
    for arguments in docs_page.commands(PAGE):
        docs_page.run(arguments, folder)
    first, second = docs_page.records(folder)
    assert first["status"] == second["status"] == "done"
    assert first["inference"] == "tempered" and first["config"]["inference"]["beta"] == 0.5
    assert second["config"]["inference"]["beta"] == 1.0 and second["training"]["steps"] == 50


BROKEN = {
    "shape": ("        return super().terms(prepared, X, Y, noise, start)[:-1]", "failed", "must have shape"),
    "nan": (
        "        return super().terms(prepared, X, Y, noise, start) * float('nan')",
        "diverged",
        "not finite",
    ),
    "raises": ("        return X.nothing", "failed", "nothing"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_method_that_goes_wrong_is_recorded_with_its_place(name, tmp_path, monkeypatch):
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit

    docs_page.write(PAGE, tmp_path)
    body, status, says = BROKEN[name]
    text = (tmp_path / "tempered.py").read_text()
    module = f"tempered_{name}"
    terms = f"    def terms(self, prepared, X, Y, noise, start):\n{body}\n\n    def penalty("
    (tmp_path / f"{module}.py").write_text(text.replace("    def penalty(", terms, 1))
    monkeypatch.syspath_prepend(str(tmp_path))
    words = [
        "inference=tempered",
        f"inference._target_={module}.TemperedVI",
        "dataset=step",
        "budget.steps=3",
    ]
    words += [
        "model=sgp",
        "model.num_inducing=5",
        "dataset.n=60",
        f"paths.results={tmp_path}",
        "engine.xla=false",
    ]
    unit, _ = run_unit(compose([*words, f"paths.datasets={tmp_path}"], [tmp_path]))
    assert unit.record["status"] == status and says in unit.record["reason"]
    assert f"{module}.py" in unit.record["reason"] + str(unit.record.get("details"))
