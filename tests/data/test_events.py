"""Point patterns: decoded, binned, refused."""

import pickle

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.data.readers.source_formats import read_events
from dgpbench.errors import UserError

EVENTS = np.random.RandomState(0).uniform(0, 1, (30, 2))
PAYLOAD = {"after": "abcdef", "count": 30, "columns": 2}
OPTIONS = {"bins": 4, "low": 0.0, "high": 10.0, "scale": 10.0, "payload": PAYLOAD}


def _file(tmp_path, content):
    path = tmp_path / "events.np"
    path.write_bytes(content)
    return path


def test_a_payload_is_decoded_and_binned_as_by_hand(tmp_path):
    path = _file(tmp_path, b"anything\xab\xcd\xef" + EVENTS.astype("<f8").tobytes() + b"more")
    (rows,) = read_events(path, OPTIONS)
    assert rows.shape == (16, 3) and rows[:, 2].sum() == 30
    np.testing.assert_allclose(
        rows[:5, :2], [[1.25, 1.25], [1.25, 3.75], [1.25, 6.25], [1.25, 8.75], [3.75, 1.25]]
    )
    for x, y, count in rows:
        inside = (np.abs(10 * EVENTS - [x, y]) <= 1.25).all(1)
        assert inside.sum() == count


def test_lines_take_the_range_of_the_events(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("3.0\n1.0\n1.5\n5.0\n4.9\n")
    (rows,) = read_events(path, {"bins": 4})
    np.testing.assert_allclose(rows, [[1.5, 2], [2.5, 0], [3.5, 1], [4.5, 2]])


class _Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize("content", [b"", b"\xab\xcd\xef" + b"\0" * 100, pickle.dumps(_Trap()) * 40])
def test_a_broken_payload_is_one_line_and_never_unpickled(tmp_path, content):
    with pytest.raises(UserError, match="fetch it again"):
        next(read_events(_file(tmp_path, content), OPTIONS))


def test_an_event_outside_the_window_is_refused(tmp_path):
    path = _file(tmp_path, b"\xab\xcd\xef" + (EVENTS * 2).astype("<f8").tobytes())
    with pytest.raises(UserError, match="outside the window"):
        next(read_events(path, OPTIONS))


def _csv(tmp_path, counts):
    path = tmp_path / "own.csv"
    path.write_text("x,y\n" + "".join(f"{i + 100},{c}\n" for i, c in enumerate(counts)))
    own = [f"paths.datasets={tmp_path / 'cache'}", f"dataset.path={path}", "dataset.task=counts", "model=sgp"]
    return compose(["dataset=csv", *own, "protocol=whole"])


@pytest.mark.parametrize("wrong", [-1, 0.5])
def test_targets_that_are_no_counts_are_one_line(tmp_path, wrong):
    with pytest.raises(UserError, match="no counts .row 2: ") as error:
        load_split(_csv(tmp_path, [1, 0, wrong, 3, 2, 1]))
    assert "\n" not in str(error.value)


def test_counts_stay_as_they_are_and_whole_scores_every_row(tmp_path):
    split = load_split(_csv(tmp_path, [1, 0, 4, 3, 2, 1]))
    assert split.task == "counts" and sorted(split.Y_train[:, 0]) == [0, 1, 1, 2, 3, 4]
    np.testing.assert_array_equal(split.rows_test, np.arange(6))
    assert any("every row trains" in trap for trap in split.traps)
    assert split.X_train.std() == pytest.approx(1.0)
