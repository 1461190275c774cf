"""`netsim trace convert`, and `trace check` of what it writes."""

from __future__ import annotations

import pytest

import netsim as api


def test_convert_there_and_back(netsim, here) -> None:
    done = netsim("trace", "convert", "coflow-sample", "t.json", "--set", "limit=5")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "wrote t.json: 5 jobs\n", "")
    assert netsim("trace", "convert", "t.json", "t.dat", "--to", "coflow-benchmark"
                  ).stdout == "wrote t.dat: 5 jobs\n"
    assert (here / "t.dat").read_text().splitlines()[:2] == ["6 5", "1 0 1 0 1 1:12"]
    done = netsim("trace", "convert", "t.dat", "u.txt", "--format", "coflow-benchmark")
    assert (here / "u.txt").read_bytes() == (here / "t.dat").read_bytes()


def test_what_is_replaced_is_named(netsim, here) -> None:
    for name in ("t.json", "t.0.et"):
        (here / name).write_text("mine")
        done = netsim("trace", "convert", "coflow-sample", name.replace(".0", ""))
        assert done.stderr.splitlines()[0] == (
            f"note: {name} exists, and is replaced; give another TARGET to keep it")


def test_convert_draws_and_places(netsim, here) -> None:
    done = netsim("trace", "convert", "parrot-60", "t.json", "--network", "big-switch-128-10g",
                  "--seed", "3", "--set", "iterations=2")
    assert (done.exit_code, done.stderr) == (0, "")
    assert {job.iterations for job in api.read_workload(here / "t.json")} == {2}
    assert api.read_network(here / "t.json").hosts == 128


@pytest.mark.parametrize(("arguments", "message"), [
    (["nowhere.txt", "t.json"], "nowhere.txt: no such file\n"),
    (["bad.txt", "t.json"], "bad.txt:2: MB_1 must be a number from 0 to 1e+18, not 'x'\n"),
    (["parrot-60", "t.json"], "job 0 does not say the hosts of its ranks, and there is no network "
                               "to place them on\n"),
    (["parrot-60", "t.txt", "--network", "big-switch-128-10g"], "job 0 has 2 stages, and"),
    (["coflow-sample", "t.dat"], "t.dat: no format has the suffix '.dat'; give one of: json, "),
    (["coflow-sample", "t.csv"], "unknown format to write 'tiresias'; choose from: chakra, "),
    (["coflow-sample", "none/t.json"], "none/t.json: cannot be written: "),
    (["coflow-sample", "t.json", "--network", "x"], "unknown network 'x'; choose from: "),
    (["coflow-sample", "t.json", "--network", "parrot-fig2"], "job 1: host 2 is out of range"),
    (["coflow-sample", "t.json", "--set", "limit"], "'limit' is not a setting; write it as KEY"),
    (["coflow-sample", "t.json", "--set", "limt=3"], "unknown option 'limt' (did you mean 'limi"),
    (["coflow-sample", "t.json", "--set", "jobs=3"], "unknown coflow-benchmark option 'jobs'; "),
    (["coflow-sample", "t.json", "--set", "limit=x"], "limit must be a whole number of at least 1"),
])
def test_bad_input(refused, here, arguments, message) -> None:
    (here / "bad.txt").write_text("2 1\n1 0 1 0 1 1:x\n")
    assert refused("trace", "convert", *arguments).startswith(message)


def test_check_shows_notices_and_takes_options(netsim, here) -> None:
    (here / "t.txt").write_text("2 2\n1 9 1 1 1 2:1\n2 4 1 1 1 2:1\n")
    assert netsim("trace", "check", "t.txt").exit_code == 2
    done = netsim("trace", "check", "t.txt", "--set", "first_port=1")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == [
        "t.txt: coflow-benchmark, nothing wrong",
        "t.txt:3: notice: arrival_ms 4 comes after 9; the coflows are sorted by arrival"]
