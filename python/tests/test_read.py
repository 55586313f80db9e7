"""``trijet.read``: what the command reads, with the words of the command."""

import json
import struct
import subprocess
import sys

import pytest

import trijet
from trijet import errors

KERNEL, COPY = 1, 2
UPLOAD, PAGEABLE, DEVICE = 1, 1, 3


def block(tag, payload):
    return struct.pack("<BBH", tag, 0, len(payload)) + payload


def trace_of(process=7, steps=100):
    """The trace of a program that loads for 6 s and then makes steps of an upload and two kernels."""
    header = block(1, b"TRJTRACE" + struct.pack("<IIIIQ", 5, process, 130_001, 0, 1))
    names = [block(2, struct.pack("<I", number) + name) for number, name in enumerate([b"init", b"one", b"two"])]
    rows = []

    def add(kind, name, begin_us, took_us, size=0):
        times = [1000 * (1 + begin_us), 1000 * (1 + begin_us + took_us)]
        rows.append(block(5, struct.pack("<4B4xIIIIIIQQQ", *kind, 0, 1, 7, 1, 0, name, size, *times)))

    add((KERNEL, 0, 0, 0), 0, 0, 10)
    for begin in (6_000_000 + 4100 * step for step in range(steps)):
        add((COPY, UPLOAD, PAGEABLE, DEVICE), 0xFFFFFFFF, begin, 100, 1 << 20)
        add((KERNEL, 0, 0, 0), 1, begin + 100, 1500)
        add((KERNEL, 0, 0, 0), 2, begin + 1600, 1500)
    end = block(7, struct.pack("<6Q", len(rows), 0, 0, 0, 0, 6_500_000_000))
    return b"".join([header, block(8, b"python3 train.py"), *names, *rows, end])


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "run.trijet"
    path.write_bytes(trace_of())
    return path


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """The ledger of a run of the command. With a wait left out, the command also writes a picture."""
    monkeypatch.chdir(tmp_path)

    def make(*options):
        path = tmp_path / "run.ledger"
        small = ["--size", "8MiB", "--device", "host", "--trace", str(path), "--overwrite"]
        command("overlap", *small, *options)
        return path

    return make


def command(*arguments):
    call = [sys.executable, "-m", "trijet", *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, timeout=120)


def fields(ran):
    found = json.loads(ran.stdout)
    return {name: value for name, value in found.items() if name not in ("version", "command")}


def test_a_trace_has_the_text_and_the_json_of_the_command(trace_file):
    run = trijet.read(trace_file)
    assert run.kind == "trace" and run.missing is None and run.is_clean is None
    assert run.summary() + "\n" == command("trace", "--read", trace_file).stdout
    assert run.json() == fields(command("trace", "--read", trace_file, "--json"))
    assert str(run) == repr(run) == run.summary() and "python3 train.py" in str(run)
    assert "not checked" in run.verdict
    whole = trijet.read(trace_file, whole=True)
    assert whole.summary() + "\n" == command("trace", "--read", trace_file, "--whole").stdout
    assert whole.summary() != run.summary()


def test_the_findings_of_a_trace_are_those_of_the_json(trace_file):
    run = trijet.read(trace_file)
    [device] = run.json()["processes"][0]["devices"]
    assert run.findings and {one.rule for one in run.findings} == {one["key"] for one in device["findings"]}
    costs = [one.seconds for one in run.findings]
    assert costs == sorted(costs, reverse=True) and all(one.text for one in run.findings)


def test_a_page_and_a_copy_are_saved(trace_file, tmp_path):
    run = trijet.read(trace_file)
    run.save(tmp_path / "run.html")
    command("trace", "--read", trace_file, "-o", tmp_path / "other.html")
    assert (tmp_path / "run.html").read_bytes() == (tmp_path / "other.html").read_bytes()
    run.save(tmp_path / "copy.trijet")
    assert (tmp_path / "copy.trijet").read_bytes() == trace_file.read_bytes()
    with pytest.raises(ValueError, match=r"run\.trijet"):
        run.save(trace_file)
    assert "iframe" in run._repr_html_()
    with pytest.raises(ValueError, match="no device memory"):
        run.allocations()


def test_a_folder_has_the_traces_of_its_files(tmp_path, trace_file):
    (tmp_path / "8-1.trijet").write_bytes(trace_of(process=8, steps=50))
    run = trijet.read(tmp_path)
    assert {process["process"] for process in run.json()["processes"]} == {7, 8}
    run.save(tmp_path / "joined")
    assert trijet.read(tmp_path / "joined").summary() == run.summary(), "the first bytes tell what a file is"


def test_a_trace_of_nothing_tells_the_reason(tmp_path):
    path = tmp_path / "none.trijet"
    head = block(1, b"TRJTRACE" + struct.pack("<IIIIQ", 5, 7, 0, 0, 0))
    path.write_bytes(head + block(6, b"CUPTI was not found") + block(7, struct.pack("<6Q", *[0] * 6)))
    run = trijet.read(path)
    assert run.missing == "CUPTI was not found" and run.summary() == "nothing was traced: CUPTI was not found"
    assert "<pre>" in run._repr_html_()
    with pytest.raises(ValueError, match="CUPTI was not found"):
        run.save(tmp_path / "run.html")


def test_a_ledger_is_checked(ledger):
    path = ledger()
    run = trijet.read(path)
    checked = command("check", path)
    assert run.kind == "ledger" and run.summary() + "\n" == checked.stdout and checked.returncode == 0
    assert run.is_clean is True and run.verdict in run.summary()
    assert run.json() == fields(command("check", path, "--json"))
    assert [one.rule for one in run.findings] == [
        one["rule"] for one in sorted(run.json()["lints"], key=lambda one: -one["saved_ns"])
    ]


def test_a_ledger_with_a_race_is_not_clean(ledger):
    path = ledger("--drop-wait", "1")
    run = trijet.read(path)
    checked = command("check", path)
    assert checked.returncode == 1 and run.summary() + "\n" == checked.stdout
    assert run.is_clean is False and "error" in run.verdict and run.json()["findings"]
    with pytest.raises(ValueError, match="map"):
        run.save(path.with_suffix(".html"))


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(errors.FileError, match=r"gone\.ledger"):
        trijet.read(tmp_path / "gone.ledger")
    with pytest.raises(ValueError, match=r"\.trijet"):
        trijet.read(tmp_path)
    for name in ("bad.ledger", "bad.trijet", "empty.trijet"):
        (tmp_path / name).write_bytes(b"" if name.startswith("empty") else b"\x93NUMPY, which is something else")
        with pytest.raises(errors.TrijetError, match=name):
            trijet.read(tmp_path / name)
