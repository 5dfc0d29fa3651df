"""Records that no dgpbench has written: what others, disks and editors make of a good one."""

import json
import os
import socket

from dgpbench.store.record import dumps


def changed(**fields):
    """The record with other fields, sealed again as a forger would."""
    return lambda record: dumps({**record, **fields}).encode()


def inside(section, **fields):
    return lambda record: dumps({**record, section: {**record[section], **fields}}).encode()


def in_config(section, value):
    return lambda record: dumps({**record, "config": {**record["config"], section: value}}).encode()


def text(content):
    return lambda record: content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


def edited(old, new):
    """The text of the record with something replaced in it, and not sealed."""
    return lambda record: dumps(record).replace(old, new, 1).encode("utf-8", "surrogatepass")


def without(name):
    return lambda record: dumps({k: v for k, v in record.items() if k != name}).encode()


def unsealed(**fields):
    """The same as a record of schema 1, which has no checksum: only its content can tell."""
    return lambda record: json.dumps({**record, "schema": 1, **fields}).encode()


NAN, INF = float("nan"), float("inf")
CONTENTS = {
    "empty": text(""),
    "half": lambda record: dumps(record).encode()[:700],
    "brace": text("{"),
    "list": text("[]"),
    "null": text("null"),
    "number": text("7"),
    "zeros": text(b"\0" * 5000),
    "noise": text(bytes(range(256)) * 20),
    "utf16": lambda record: dumps(record).encode("utf-16"),
    "deep lists": text("[" * 100_000),
    "deep mappings": text('{"a":' * 5000 + "1" + "}" * 5000),
    "deep config": unsealed(config={"a": json.loads('{"a":' * 60 + "1" + "}" * 60)}),
    "huge": text(b" " * (65 << 20)),
    "bit flipped": edited('"wall_seconds": ', '"wall_seconds": 1'),
    "checksum of another": edited('"checksum": "', '"checksum": "0'),
    "no checksum": lambda record: json.dumps(dict(record)).encode(),
    "words after it": lambda record: dumps(record).encode() + b"x",
    "nan metric": unsealed(metrics={"test_rmse": NAN}),
    "infinite metric": unsealed(metrics={"test_rmse": INF}),
    "overflow": edited('"wall_seconds": ', '"wall_seconds": 1e999, "x": '),
    "long number": unsealed(wall_seconds=10**400),
    "long seed": unsealed(seed=10**30),
    "text metric": inside("metrics", test_rmse="0.1"),
    "bool metric": inside("metrics", test_rmse=True),
    "list metric": inside("metrics", test_rmse=[1.0]),
    "metric with a newline": inside("metrics", **{"a\nb": 1.0}),
    "metrics list": changed(metrics=[]),
    "surrogate": unsealed(model="dgp\ud800"),
    "bell in the name": changed(model="dgp\a"),
    "escape in the device": changed(device="\x1b[2Jcpu"),
    "long name": changed(dataset="d" * 5000),
    "empty name": changed(dataset=""),
    "way out": changed(dataset="../../x"),
    "other label": changed(model="sgp"),
    "other split": changed(split=3),
    "negative split": changed(split=-1),
    "bool split": changed(split=True),
    "text seed": changed(seed="0"),
    "schema 99": changed(schema=99),
    "schema 0": changed(schema=0),
    "schema text": changed(schema="2"),
    "schema true": changed(schema=True),
    "schema none": without("schema"),
    "status": changed(status="finished"),
    "status list": changed(status=["done"]),
    "short key": changed(key="abc"),
    "capital key": changed(key="A" * 64),
    "config list": changed(config=[]),
    "config empty": changed(config={}),
    "model text": in_config("model", "dgp2"),
    "likelihood list": in_config("likelihood", []),
    "launcher none": in_config("launcher", None),
    "reason number": changed(reason=5),
    "reason endless": changed(reason="x" * 200_000),
    "time": changed(finished="yesterday"),
    "no time": changed(finished=""),
    "notes": changed(notes={"a": 1}),
    "note list": changed(notes=[[]]),
    "versions": changed(versions=["1"]),
    "version list": inside("versions", python=[3, 11]),
    "sizes": inside("sizes", n_train=-1),
    "training text": changed(training="long"),
    "trace of words": inside("training", trace=[["a", "b"]]),
    "trace number": inside("training", trace=7),
    "seconds": inside("training", seconds="long"),
    "processor seconds": inside("training", cpu_seconds=[1.0]),
    "steps": inside("training", steps="many"),
    "steps below zero": inside("training", steps=-1),
    "reliability": inside("details", reliability={"count": 1}),
    "rows of reliability": inside(
        "details", reliability={"count": [None], "confidence": [0.5], "accuracy": [0.5]}
    ),
    "histogram": inside("details", pit_histogram="flat"),
    "negative time": changed(wall_seconds=-1.0),
    "threads": changed(threads="many"),
    "data hash": changed(data_hash="abc"),
    "file with a way out": changed(files={"../../record.json": {"sha256": "0" * 64, "bytes": 1}}),
    "file under another name": changed(
        files={"params.npz": {"sha256": "0" * 64, "bytes": 1, "name": "../../../../etc/passwd"}}
    ),
    "file without sha256": changed(files={"params.npz": {}}),
    "file text": changed(files={"params.npz": "x"}),
    "unknown field": changed(colour="red"),
    "no metrics": without("metrics"),
    "no files": without("files"),
}


def fifo(path, record):
    os.mkfifo(path)


def folder(path, record):
    path.mkdir()


def link(path, record):
    target = path.with_name("elsewhere.json")
    target.write_text(dumps(record))
    path.symlink_to(target)


def dangling(path, record):
    path.symlink_to("nowhere")


def loop(path, record):
    path.symlink_to(path.name)


def device(path, record):
    path.symlink_to("/dev/zero")


def unix_socket(path, record):
    here = os.getcwd()
    os.chdir(path.parent)  # addresses are short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


FILES = {f.__name__: f for f in (fifo, folder, link, dangling, loop, device, unix_socket)}


def place_all(folders, record) -> dict[str, object]:
    """Put one bad record into each of the folders; returns the folder of each by name."""
    places, rest = {}, iter(folders)
    for name, make in (*CONTENTS.items(), *FILES.items()):
        places[name] = next(rest)
        places[name].mkdir(parents=True)
        path = places[name] / "record.json"
        if name in FILES:
            make(path, record)
        else:
            path.write_bytes(make(record))
    return places
