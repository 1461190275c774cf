"""The command line: an exit code and a message, whatever is given; nothing half written."""

from __future__ import annotations

import json
import os
from pathlib import Path

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from netsim.cli.main import main

from .harness import Guard, fuzzed, limited
from .mutations import odd_texts, odd_values

FIG2 = """\
[network]
name = "parrot-fig2"
[workload]
name = "parrot-fig2"
[compare]
allocators = ["parrot", "lccf:work_conservation=none"]
"""
INSTANCE = {"hosts": 2, "port_capacity_bytes_per_s": 1e6, "jobs": [
    {"coflows": [[{"src": 0, "dst": 1, "bytes": 5e5}]]}]}

COMMANDS = [
    ["run", "e.toml"], ["compare", "e.toml"], ["sweep", "e.toml"],
    ["sweep", "e.toml", "--seeds", "2"],
    ["run", "none.toml"], ["run", "demo", "--set", "workload.jobs=1"], ["report", "r"],
    ["plot", "r", "--kind", "nope"], ["list", "allocators"], ["init", "i.toml"], ["topo", "show"],
    ["topo", "show", "w.json"], ["trace", "check", "w.json"],
    ["trace", "convert", "w.json", "o.json"], ["trace", "convert", "w.json", "o.txt"],
    ["data", "list"], ["reproduce", "--list"], ["reproduce"],
    ["predict", "w.json"], ["map", "vgg19", "--counts", "2,2"], ["run"], []]
SETTINGS = ["seed", "observe_interval", "allocator", "allocator.name", "allocator.theta_max",
            "network.name", "network.capacity", "network.kind", "workload.file", "network.file",
            "workload.format", "workload.jobs", "until", "record", "events", "compare.baseline",
            "name", "scheduler", "cluster.servers", "check", "workload.iterations"]
OUTS = ["r", "e.toml", "e.toml/x", "a/b", "é", "none", "x" * 300]
OPTIONS = ["--set", "--set", "--set", "--seed", "--out", "--quiet", "--timeline", "--allocator",
           "--scheduler", "--baseline", "--vary", "--seeds", "-j", "--no-resume", "--format",
           "--to", "--network", "--kind", "--of", "--counts", "--gpus", "--nic", "--mapping",
           "--stages",
           "--help", "--version", "--nope"]


@st.composite
def arguments(draw: st.DrawFn) -> list[str]:
    """Draw a command line."""
    given_ = [*draw(st.sampled_from(COMMANDS))]
    texts = odd_texts.filter(lambda text: "\u0000" not in text)  # which no system hands on
    for _ in range(draw(st.integers(0, 3))):
        option = draw(st.sampled_from(OPTIONS))
        value = draw(texts | odd_values.map(lambda value: str(value)[:200]))
        if option in ("--set", "--vary"):
            value = f"{draw(st.sampled_from(SETTINGS) | texts)}={value}"
        if option == "--out":
            value = draw(st.sampled_from(OUTS))
        if option == "-j":
            value = draw(st.sampled_from(["0", "-1", "x", "1"]))
        given_ += [option] if draw(st.integers(0, 9)) == 0 else [option, value.replace("\0", "")]
    if draw(st.integers(0, 9)) == 0:
        given_.insert(draw(st.integers(0, len(given_))), draw(texts))
    return given_


@fuzzed(5)
@given(given_=arguments())
def test_commands(guard: Guard, part: int, given_: list[str]) -> None:
    before = os.getcwd()
    with guard.folder() as folder:
        (folder / "e.toml").write_text(FIG2)
        (folder / "w.json").write_text(json.dumps(INSTANCE))
        os.chdir(folder)
        try:
            there = files(folder)
            with limited():
                done = CliRunner().invoke(main, given_, prog_name="netsim")
            after = files(folder)
        finally:
            os.chdir(before)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    guard.counts["accepted" if done.exit_code == 0 else "refused"] += 1
    assert done.exit_code in (0, 1, 2)
    assert not [name for name in after if Path(name).name.startswith(".")]
    if done.exit_code == 2:
        assert done.stderr.startswith(("error: ", "Usage: ", "Error: ")) or "trace" in given_
        assert after == there


def files(folder: Path) -> set[str]:
    """Return all that is in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}
