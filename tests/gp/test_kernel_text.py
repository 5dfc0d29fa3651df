"""The text form of kernels: what it means, what is refused, and that the command line takes it unquoted."""

import subprocess
import sys

import pytest

from dgpbench.cli import main
from dgpbench.config import compose
from dgpbench.config.kernel_names import Term, canonical, indices, read
from dgpbench.errors import UserError
from dgpbench.gp.kernels import parse

UNQUOTED = [
    *("rbf", "matern52+linear+white", "rbf*periodic+linear", "rbf@0:2", "rbf@:2", "rbf@1:+linear", "rbf@0@3"),
    *("rbf@0:2@5", "rbf@:-1*periodic@-1", "/rbf+linear/*periodic", "rbf*/linear+cosine/@0:2+white"),
    *("//rbf+linear/*matern32+polynomial3/@0:2*gibbs", "rational_quadratic+arccosine1*wiener@0"),
]


@pytest.mark.parametrize("text", UNQUOTED)
def test_hydra_takes_it_unquoted(text):
    model = compose([f"model.kernel={text}", f"model.layer_overrides.0.kernel={text}"])["model"]
    assert model["kernel"] == model["layer_overrides"]["0"]["kernel"] == text


def test_hydra_takes_it_in_a_mapping():
    text = "/rbf+linear/*periodic@0:2"
    cfg = compose([f"model.layer_overrides={{0:{{kernel:{text}}}}}"])
    assert cfg["model"]["layer_overrides"]["0"]["kernel"] == text


def test_spaces_and_round_brackets_mean_the_same():
    assert canonical(" ( rbf + linear ) * periodic @0:2 ") == "/rbf+linear/*periodic@0:2"
    assert compose(["model.kernel='(rbf + linear)*periodic'"])["model"]["kernel"] == "/rbf+linear/*periodic"
    assert read("(rbf+linear)*periodic") == read("/rbf+linear/*periodic")


def test_products_bind_before_sums_and_at_before_both():
    rbf, linear, cosine = Term("rbf"), Term("linear"), Term("cosine")
    assert read("rbf+linear*cosine@1") == Term("+", (rbf, Term("*", (linear, Term("cosine", dims=("1",))))))
    assert read("/rbf+linear/+cosine") == read("rbf+/linear+cosine/") == Term("+", (rbf, linear, cosine))
    assert read("/rbf*linear/*cosine") == Term("*", (rbf, linear, cosine))
    assert read("/rbf+linear/@0:2@3") == Term("+", (rbf, linear), ("0:2", "3"))


@pytest.mark.parametrize(
    "dims, expected",
    [("0:2", (0, 1)), ("3", (3,)), ("-1", (4,)), (":-3", (0, 1)), ("-2:", (3, 4)), ("4@0:2", (4, 0, 1))],
)
def test_dimensions_are_python_slices(dims, expected):
    assert indices(tuple(dims.split("@")), 5) == expected
    assert parse(f"rbf@{dims}", 5, True).initial(1.0, 1.0, 0.0)["rbf/lengthscales"].shape == (len(expected),)


@pytest.mark.parametrize("dims", ["5", "-6", "3:6", "2:2", "0:2@1", "4:9", "6:"])
def test_dimensions_outside_the_inputs_are_refused(dims):
    with pytest.raises(UserError, match="does not fit: @.*(outside the inputs, which are 0 to 4|twice)$"):
        parse(f"rbf@{dims}", 5, True)


REFUSED = {
    "rbg": "is no kernel; did you mean 'rbf'? a kernel is a sum or product of rbf, ",
    "rbf*linaer": "is no kernel; did you mean 'linear'?",
    "zzzz": "is no kernel: 'zzzz' is unknown; a kernel is a sum or product of rbf, ",
    "polynomial0": "is no kernel; did you mean 'polynomial",
    "white": "needs another kernel beside it: rbf+white",
    "white+white": "needs another kernel beside it: rbf+white",
    "rbf*white": "white is noise, so it stands once, in the outermost sum",
    "/rbf+white/*linear": "white is noise, so it stands once, in the outermost sum",
    "rbf+white+white": "white is noise, so it stands once, in the outermost sum",
    "rbf+white@0": "white is noise, so it stands once, in the outermost sum",
    "/rbf+white/@0:2": "white is noise, so it stands once, in the outermost sum",
    "rbf+": "it ends where a name should stand",
    "+rbf": "'+' stands where a name should",
    "rbf**linear": "'*' stands where a name should",
    "rbf//linear": "'/' stands where + or * should",
    "/rbf+linear": "a bracket '/' is not closed",
    "rbf@": "after @ comes an input such as @3 or a range such as @0:2",
    "rbf@:": "after @ comes an input such as @3 or a range such as @0:2",
    "rbf@x": "after @ comes an input such as @3",
    "rbf@0:2:3": "':3' cannot be read",
    "rbf-linear": "'-linear' cannot be read",
    "3": "is no kernel; a kernel is a sum or product of rbf, ",
    "null": "is no kernel; a kernel is a sum or product of rbf, ",
    "/" * 4000 + "rbf": "more than 8 brackets inside each other",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_is_no_kernel_is_told_in_one_line(text):
    with pytest.raises(UserError) as caught:
        compose([f"model.kernel={text}"])
    message = str(caught.value)
    assert message.startswith(f"model.kernel={text} is no kernel") and REFUSED[text] in message
    assert "\n" not in message


@pytest.mark.parametrize("override", ["model.kernel=rbg", "model.layer_overrides.0.kernel=rbf*white"])
def test_the_command_exits_with_2(override, capsys):
    assert main(["run", override]) == 2
    error = capsys.readouterr().err
    assert override in error and "Traceback" not in error


def test_the_names_need_no_tensorflow():
    code = "import sys, dgpbench.config.kernel_names; print({'tensorflow', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n"
