"""Large data in bounded memory: parsing, generating, moments and minibatches."""

import tracemalloc

import numpy as np
import pytest

from dgpbench.data import cache, load_split, scaling
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import entry_from_config

MB = 1 << 20


@pytest.fixture
def peak():
    """peak(function) -> (result, peak of traced memory in MB); numpy arrays count, mapped files do not."""

    def measure(function):
        tracemalloc.start()
        try:
            result = function()
            return result, tracemalloc.get_traced_memory()[1] / MB
        finally:
            tracemalloc.stop()

    return measure


@pytest.mark.slow
def test_csv_is_streamed(peak, paths, tmp_path):
    block = "\n".join(",".join(f"{v:.4f}" for v in r) for r in np.random.RandomState(0).rand(1000, 20)) + "\n"
    with open(tmp_path / "big.csv", "w") as file:
        for _ in range(250):
            file.write(block)
    entry = entry_from_config({"name": "csv", "path": str(tmp_path / "big.csv")})
    data, used = peak(lambda: load_data(entry, paths))
    assert data.X.shape == (250_000, 19)  # 38 MB
    assert (
        used < 50
    )  # one block and, at the end, the 38 MB array itself, which is below the limit for mapping
    (_, blocks) = peak(lambda: sum(len(x) for x, _ in _blocks(entry, paths)))
    assert blocks < 20


def _blocks(entry, paths):
    from dgpbench.data.cache import recipe_of

    return recipe_of(entry, paths).make(lambda _: None)[0]


def test_parquet_is_streamed(peak, paths, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({f"c{i}": np.random.RandomState(i).rand(300_000) for i in range(10)})
    pq.write_table(table, tmp_path / "big.parquet", row_group_size=50_000)
    entry = entry_from_config({"name": "csv", "path": str(tmp_path / "big.parquet")})
    rows, used = peak(lambda: sum(len(x) for x, _ in _blocks(entry, paths)))
    assert rows == 300_000 and used < 20
    data = load_data(entry, paths)
    assert np.array_equal(data.X[:, 3], np.random.RandomState(3).rand(300_000))


def test_large_generated_set_is_mapped_and_never_held(peak, config):
    n = 1_500_000  # 103 MB
    cfg = config({"name": "arm8", "n": n})
    split, used = peak(lambda: load_split(cfg))
    assert isinstance(split.X, np.memmap) and split.X.shape == (n, 8)
    assert used < 60  # blocks, and 8 bytes per row for the row numbers, shuffled and sorted
    rows = np.random.RandomState(0).randint(0, split.n_train, 10_000)
    (X, Y), used = peak(lambda: split.take_train(rows))
    assert used < 5 and X.shape == (10_000, 8)
    source = split.rows_train[rows]
    assert np.array_equal(X, (split.X[source] - split.x_mean) / split.x_std)
    assert np.array_equal(Y, (split.Y[source] - split.y_mean) / split.y_std)
    assert np.allclose(split.x_std, np.pi / np.sqrt(12), rtol=2e-3)


def test_moments_in_blocks_equal_moments_in_one(monkeypatch):
    A = np.random.RandomState(0).standard_normal((5000, 7)) * 3 + 100
    A[:, 4] = 0.1
    rows = np.random.RandomState(1).permutation(5000)[:3000]
    for part in (None, rows):
        whole = scaling.moments(A, part)
        with monkeypatch.context() as patch:
            patch.setattr(scaling, "DIRECT_BYTES", 0)
            patch.setattr(scaling, "_BLOCK_VALUES", 700)
            blocks = scaling.moments(A, part)
        assert np.allclose(blocks.mean, whole.mean, rtol=1e-13)
        assert np.allclose(blocks.std, whole.std, rtol=1e-10, atol=1e-12)
        assert blocks.constant.tolist() == whole.constant.tolist() == [False] * 4 + [True] + [False] * 2


def test_npy_files_are_plain_numpy(tmp_path):
    X, Y = np.random.RandomState(0).rand(100, 3), np.arange(100.0)[:, None]
    found = cache.write_arrays(iter([(X[:60], Y[:60]), (X[60:], Y[60:])]), tmp_path)
    assert np.array_equal(np.load(tmp_path / "X.npy"), X) and np.array_equal(np.load(tmp_path / "Y.npy"), Y)
    assert found["n"] == 100 and found["data_hash"] == cache.data_hash(X, Y)
