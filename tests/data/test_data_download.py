"""Downloads against a server that is slow, cuts off, lies, or is not there."""

import hashlib

import pytest

from dgpbench.data.download import SourceError, copy_file, download

QUICK = {"timeout": 0.3, "retries": 3, "backoff": 0.01}


def sha(content):
    return hashlib.sha256(content).hexdigest()


def only(folder):
    return sorted(p.name for p in folder.iterdir())


def test_good_download_with_progress(server, tmp_path):
    seen = []
    got = download(server.url + "/a.csv", tmp_path / "a.csv", sha(server.content), lambda *a: seen.append(a))
    assert got == sha(server.content)
    assert (tmp_path / "a.csv").read_bytes() == server.content
    assert seen[-1] == (len(server.content), len(server.content))
    assert only(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("fault", ["slow", "cut", 503])
def test_passing_faults_are_retried(server, tmp_path, fault):
    server.script = [fault, fault]
    download(server.url + "/a.csv", tmp_path / "a.csv", sha(server.content), **QUICK)
    assert len(server.requests) == 3
    assert (tmp_path / "a.csv").read_bytes() == server.content


@pytest.mark.parametrize(
    "fault, text", [("slow", "timed out"), ("cut", "of 30000 bytes|broke off"), (503, "HTTP 503")]
)
def test_lasting_faults_are_reported(server, tmp_path, fault, text):
    server.script = [fault] * 5
    with pytest.raises(SourceError, match=text) as caught:
        download(server.url + "/a.csv", tmp_path / "a.csv", None, **QUICK)
    assert "3 tries" in str(caught.value)
    assert only(tmp_path) == []


def test_missing_file_is_not_retried(server, tmp_path):
    server.script = [404, 404]
    with pytest.raises(SourceError, match="HTTP 404"):
        download(server.url + "/a.csv", tmp_path / "a.csv", None, **QUICK)
    assert len(server.requests) == 1


def test_wrong_hash_is_refused_and_nothing_is_left(server, tmp_path):
    server.script = ["other"]
    expected, got = sha(server.content), sha(b"x" * len(server.content))
    with pytest.raises(SourceError) as caught:
        download(server.url + "/a.csv", tmp_path / "a.csv", expected, **QUICK)
    for part in (expected, got, server.url, "refused"):
        assert part in str(caught.value)
    assert only(tmp_path) == []
    download(server.url + "/a.csv", tmp_path / "a.csv", expected, **QUICK)  # the next try starts afresh
    assert sha((tmp_path / "a.csv").read_bytes()) == expected


def test_an_interrupted_download_leaves_the_old_file(server, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"old")

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(server.url + "/a.csv", tmp_path / "a.csv", None, stop, **QUICK)
    assert only(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_bytes() == b"old"


def test_nobody_listens(tmp_path):
    with pytest.raises(SourceError, match="3 tries"):
        download("http://127.0.0.1:9/a.csv", tmp_path / "a.csv", None, **QUICK)


def test_only_web_addresses(tmp_path):
    with pytest.raises(SourceError, match="only http"):
        download("file:///etc/hostname", tmp_path / "a", None)


def test_copy_checks_the_hash(tmp_path):
    (tmp_path / "in").write_bytes(b"abc")
    assert copy_file(tmp_path / "in", tmp_path / "out", sha(b"abc")) == sha(b"abc")
    with pytest.raises(SourceError, match="refused"):
        copy_file(tmp_path / "in", tmp_path / "out2", sha(b"abd"))
    assert only(tmp_path) == ["in", "out"]
