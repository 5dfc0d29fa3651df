"""`doctor`: each check finds what it is there to find."""

import subprocess

import pytest
from cli_process import dgpbench

from dgpbench.cli import doctor


def findings(check):
    return [(status, name) for status, name, _ in doctor._guarded(check)]


@pytest.mark.slow
def test_self_check_and_exit_code(tmp_path):
    done = dgpbench("doctor", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "all well", done.stdout
    assert any(line.startswith("ok      self-check  ") for line in lines) and list(tmp_path.iterdir()) == []
    (step,) = (line for line in lines if line.startswith("ok      compiler "))
    assert "ms per step after" in step and "s of compilation; bound -" in step
    for package in ("GPflow", "TFP"):
        assert any(line.startswith(f"ok      self-check of {package}") for line in lines)


def test_broken_parts_are_found(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DGPBENCH_RESULTS", str(tmp_path / "file"))
    monkeypatch.setenv("DGPBENCH_MIRROR", str(tmp_path / "none"))
    assert findings(doctor._folders)[0] == ("BROKEN", "results")
    assert findings(doctor._mirror) == [("BROKEN", "mirror")]
    monkeypatch.setenv("DGPBENCH_MIRROR", "http://127.0.0.1:9/")
    assert findings(doctor._mirror) == [("BROKEN", "mirror")]
    monkeypatch.setattr(doctor, "_self_check", lambda: iter([]))
    monkeypatch.setattr(doctor, "_machine", lambda: iter([]))
    monkeypatch.setattr(doctor, "_training_step", lambda: iter([]))
    assert doctor.main(None) == 1 and "2 broken" in capsys.readouterr().out


def test_a_wrong_number_is_found(monkeypatch):
    from dgpbench.cli import doctor as selfcheck

    monkeypatch.setattr(selfcheck, "sparse_gp_bounds", lambda: (-150.0, -150.001))
    monkeypatch.setattr(selfcheck, "exact_gp_evidence", lambda: (-20.0, -20.0000001))
    others = [("ok", "self-check of GPflow"), ("ok", "self-check of TFP")]
    assert findings(doctor._self_check) == [("BROKEN", "self-check"), *others]


@pytest.mark.slow
def test_a_compiler_that_does_not_start_is_found(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    ((status, name, text),) = doctor._training_step()
    assert (status, name) == ("BROKEN", "compiler") and "--xla_no_such_flag" in text
    assert text.endswith("engine.xla=false trains without it, more slowly")


STEP = '{"device": "/CPU:0", "compile": 1.0, "milliseconds": 0.5, "compiled": %s, "plain": -100.0}'


@pytest.mark.parametrize(
    "code, out, err, status, says",
    [
        (0, STEP % -100.0, "", "ok", "0.50 ms per step after 1.0 s of compilation"),
        (0, STEP % -100.01, "", "BROKEN", "bound -100.01000000, without XLA -100.00000000"),
        (-6, "", "I0000\nlibdevice not found\n", "BROKEN", "(exit code -6: libdevice not found)"),
        (1, "", "", "BROKEN", "cannot compile a training step (exit code 1: no message)"),
    ],
)
def test_what_is_said_of_the_compiler(monkeypatch, code, out, err, status, says):
    monkeypatch.setattr(
        doctor.subprocess,
        "run",
        lambda command, **rest: subprocess.CompletedProcess(command, code, out, err),
    )
    ((found, name, text),) = doctor._training_step()
    assert (found, name) == (status, "compiler") and says in text


def test_a_compiler_that_hangs_is_found(monkeypatch):
    monkeypatch.setattr(doctor, "COMPILE_SECONDS", 0.01)
    ((status, _, text),) = doctor._training_step()
    assert status == "BROKEN" and "compiled no training step in 0.01 s" in text


def test_products_with_ten_bits_are_found(monkeypatch):
    """TF32 as a GPU has it: factors rounded to 10 bits, sums in float32."""
    import numpy as np

    from dgpbench.engine.platform import tf

    assert [check[:2] for check in doctor._products(tf, ["/CPU:0"])] == [("ok", "tf32")]

    def rounded(A):
        bits = A.view(np.uint32) + np.uint32(1 << 12)
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)

    exact = tf.matmul
    monkeypatch.setattr(tf, "matmul", lambda A, B: exact(rounded(A), rounded(B)))
    ((status, name, text),) = doctor._products(tf, ["/CPU:0"])
    assert (status, name) == ("BROKEN", "tf32") and "NVIDIA_TF32_OVERRIDE=0" in text


def test_a_missing_package_is_found(monkeypatch):
    monkeypatch.setattr(doctor, "PACKAGES", ("numpy", "no-such-package"))
    assert findings(doctor._versions)[-2:] == [("ok", "numpy"), ("BROKEN", "no-such-package")]


def test_a_check_that_fails_is_a_finding():
    def _broken():
        raise RuntimeError("out of\norder")
        yield

    assert list(doctor._guarded(_broken)) == [("BROKEN", "broken", "RuntimeError: out of order")]


@pytest.mark.parametrize("mirror", ["", "folder"])
def test_a_good_mirror(monkeypatch, tmp_path, mirror):
    monkeypatch.setenv("DGPBENCH_MIRROR", str(tmp_path) if mirror else "")
    assert findings(doctor._mirror) == [("ok", "mirror")]
