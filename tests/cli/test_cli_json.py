"""``--json``: the numbers of a table, unrounded, and nothing else on standard output."""

from __future__ import annotations

import json

import pytest

#: Commands with tables, and a key of each row, or of the one object.
COMMANDS = {
    "list": "allocators", "list allocators": "sebf", "list allocators sebf": "options",
    "topo show fat-tree-k8-10g": "bisection_bandwidth", "data list": "tiresias",
    "reproduce --list": "parrot-fig5", "trace check parrot-60": "facts",
    "map vgg19 --counts 1,1": "mappings",
    "collective all-reduce --on ring-8-100g --ranks 4 --single --to 1MB": "time_s",
    "compare fig2.toml": "jct_total_s",
    "compare fig2.toml --quiet": "jct_total_s",
    "sweep fig2.toml --vary allocator=parrot,lccf --seeds 2": "ratio",
    "sweep fig2.toml --vary observe_interval=0,1s": "jct_total_s_low"}


@pytest.mark.parametrize("command", COMMANDS)
def test_json(netsim, command):
    done = netsim(*command.split(), "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    rows = found if isinstance(found, list) else [found]
    assert rows
    assert all(COMMANDS[command] in row for row in rows)


def test_json_is_not_rounded(netsim):
    """As in the table on disk, which the terminal rounds."""
    rows = json.loads(netsim("compare", "fig2.toml", "--out", "c", "--json").stdout)
    assert [row["label"] for row in rows][:2] == ["parrot", "lccf (work_conservation=none)"]
    with open("c/comparison.csv") as file:
        names, first = (line.rstrip("\n").split(",") for line in list(file)[:2])
    assert rows[0]["jct_total_s"] == pytest.approx(
        float(first[names.index("jct_total_s")]), rel=1e-14)


def test_json_of_what_is_wrong_in_a_trace(netsim, here):
    (here / "t.csv").write_text("src,dst,bytes\n0,1,-1\n")
    done = netsim("trace", "check", "t.csv", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["problems"][0][0] == 2
