"""Web servers that misbehave: each ends in the file itself, or in one reason and the next source."""

import gzip
import hashlib
import socket
import threading

import pytest

from dgpbench.data.download import SourceError, download

BODY = b"1,2,3\n" * 500
SHA = hashlib.sha256(BODY).hexdigest()


def answer(status="200 OK", *headers, body=BODY):
    lines = [f"HTTP/1.1 {status}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


LENGTH = f"Content-Length: {len(BODY)}"
CHUNKS = "Transfer-Encoding: chunked"
WHOLE = {  # served as they should be, in one way or another
    "plain": answer("200 OK", LENGTH),
    "no length": answer("200 OK", "Connection: close"),
    "chunked": answer("200 OK", CHUNKS, body=b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n"),
    "two headers of one name": answer("200 OK", LENGTH, "X-A: 1", "X-A: 2"),
    "old protocol": answer("200 OK", LENGTH).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "length in words": answer("200 OK", "Content-Length: many", "Connection: close"),
    "more than announced": answer("200 OK", LENGTH, body=BODY + b"more"),
}
BROKEN = {
    "nothing at all": b"",
    "garbage": b"\x00\xff" * 200,
    "no such status": b"HTTP/1.1 banana\r\n\r\n",
    "cut in the status": b"HTTP/1.1 20",
    "cut in the headers": b"HTTP/1.1 200 OK\r\nContent-Len",
    "cut in the body": answer("200 OK", LENGTH, body=BODY[:100]),
    "empty body": answer("200 OK", "Content-Length: 0", body=b""),
    "other body": answer("200 OK", LENGTH, body=b"x" * len(BODY)),
    "a page in its place": answer("200 OK", "Content-Type: text/html", "Connection: close", body=b"<html>"),
    "negative length": answer("200 OK", "Content-Length: -5", "Connection: close", body=b""),
    "endless length": answer("200 OK", f"Content-Length: {10**30}", body=b"x"),
    "length of 40 GB": answer("200 OK", f"Content-Length: {40 << 30}", body=b"x"),
    "broken chunk": answer("200 OK", CHUNKS, body=b"zz\r\n" + BODY),
    "chunk of the wrong size": answer("200 OK", CHUNKS, body=b"ffffff\r\n" + BODY),
    "packed on the way": answer("200 OK", "Content-Encoding: gzip", body=gzip.compress(BODY)),
    "a hundred thousand headers": answer("200 OK", *["A: b"] * 100_000),
    "a header of a megabyte": answer("200 OK", "A: " + "b" * (1 << 20)),
    "not found": answer("404 Not Found", LENGTH),
    "forbidden": answer("403 Forbidden", LENGTH),
    "gone": answer("410 Gone", LENGTH),
    "busy": answer("503 Service Unavailable", "Retry-After: 100000", LENGTH),
    "too many requests": answer("429 Too Many Requests", LENGTH),
    "server error": answer("500 Internal Server Error", LENGTH),
    "redirect to itself": answer("302 Found", "Location: /x", "Content-Length: 0", body=b""),
    "redirect to a file": answer("302 Found", "Location: file:///etc/passwd", "Content-Length: 0", body=b""),
    "redirect to ftp": answer("301 Moved", "Location: ftp://127.0.0.1/x", "Content-Length: 0", body=b""),
    "redirect to nowhere": answer("302 Found", "Content-Length: 0", body=b""),
    "redirect to no address": answer("302 Found", "Location: http://[::", "Content-Length: 0", body=b""),
}


@pytest.fixture(scope="module")
def serve():
    """serve(content) -> address of a server that sends these bytes to everyone and hangs up."""
    listeners = []

    def make(content):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(2)
                    try:
                        connection.recv(65536)
                        connection.sendall(content)
                    except OSError:
                        pass

        threading.Thread(target=run, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/x"

    yield make
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_is_a_file_however_it_is_served(tmp_path, serve, name):
    assert download(serve(WHOLE[name]), tmp_path / "x", SHA, timeout=2, retries=1) == SHA
    assert (tmp_path / "x").read_bytes() == BODY


@pytest.mark.parametrize("name", BROKEN)
def test_anything_else_is_one_reason(tmp_path, serve, name):
    with pytest.raises(SourceError) as caught:
        download(serve(BROKEN[name]), tmp_path / "x", SHA, timeout=2, retries=2, backoff=0.0)
    assert str(caught.value) and list(tmp_path.iterdir()) == []


def test_a_server_that_says_nothing_is_given_up(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        with pytest.raises(SourceError, match="timed out"):
            download(url, tmp_path / "x", SHA, timeout=0.2, retries=1)
    with pytest.raises(SourceError):
        download(url, tmp_path / "x", SHA, timeout=0.2, retries=1)  # nobody listens any more


NO_ADDRESSES = ["file:///etc/passwd", "ftp://h/x", "data:,x", "//h/x", "x", "", "http://", "http://a b/"]


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_addresses_that_are_none(tmp_path, url):
    with pytest.raises(SourceError):
        download(url, tmp_path / "x", retries=1, timeout=0.5)
