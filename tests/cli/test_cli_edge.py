"""Edge-clouds from the command line: what is printed, drawn and kept."""

from __future__ import annotations

import json
import re

import pytest

import netsim as api

#: Two jobs of 4 s on one worker, their data there after 1 s; the second comes at 2 s.
TWO = '''\
name = "two"
record = ["jobs", "training", "workers", "ps"]
[edge_cloud]
kind = "edge-listed"
workers = [["a"]]
ps = 0
[workload]
format = "edge-listed"
jobs = [{ worker_type = "a", compute_s = 4, upload_s = 1, cloud_upload_s = 50 },
        { worker_type = "a", compute_s = 4, upload_s = 1, cloud_upload_s = 50, arrival_s = 2 }]
'''


@pytest.fixture
def two(here) -> str:
    (here / "two.toml").write_text(TWO)
    return "two.toml"


def lines(text: str) -> dict[str, str]:
    return {name: " ".join(words) for name, *words in map(str.split, text.splitlines())}


def test_a_run_says_how_the_edge_was_used(netsim, two) -> None:
    """Job 0 trains from 1 to 5, job 1 from 5 to 9: 8 of 9 s, and starts 1 and 3 s late."""
    found = lines(netsim("run", two).stdout)
    assert found["workers"] == "88.9% of their time in training"
    assert found["queueing"] == "mean 2 s, p50 2 s, p95 2.9 s, p99 2.98 s"
    assert found["PSs"] == "2 times none was free at the edge, and one in the cloud helped out"
    # There are no coflows, and nothing to allocate.
    assert not {"CCT", "allocator"} & set(found)


def test_a_run_on_an_edge_cloud_is_stopped(netsim, two, here) -> None:
    """By a key of the file, as on a network."""
    assert lines(netsim("run", two, "--set", "until=6s", "--out", "stopped").stdout)[
        "finished"] == "1 of 2 jobs; stopped at 6 s"
    stopped = api.load_result(here / "stopped")
    assert stopped.run["stopped_at_s"] == 6
    assert stopped.jobs["finish_s"].isna().tolist() == [False, True]
    assert stopped.summary()["queue_mean_s"] == 2


def test_a_stopped_run_has_no_ratio_to_the_bound(netsim, two) -> None:
    pytest.importorskip("scipy")
    bound = ("--set", "lp_bound=1s")
    assert re.fullmatch(r".* s, total JCT .* times; with half .*",
                        lines(netsim("run", two, *bound).stdout)["LP"])
    assert "times" not in lines(netsim("run", two, *bound, "--set", "until=6s").stdout)["LP"]


def test_pictures_of_a_run_on_an_edge_cloud(netsim, two, here) -> None:
    netsim("run", two, "--out", "drawn")
    for kind in ("timeline", "gantt", "utilisation"):
        assert netsim("plot", "drawn", "--kind", kind, "--out", f"{kind}.pdf").exit_code == 0
        assert (here / f"{kind}.pdf").read_bytes().startswith(b"%PDF")


def test_what_is_not_recorded_of_an_edge_cloud_is_refused(netsim, refused, two) -> None:
    """Before the run of a comparison, and from a folder."""
    plain = ("--set", 'record=["jobs"]')
    compared = ("--scheduler", "a-online,srtf", "--plot", "utilisation=a.pdf")
    assert refused("compare", two, *plain, *compared) == (
        'the plot \'utilisation\' needs training recorded: record = ["jobs", "training"]\n')
    assert netsim("compare", two, *compared).exit_code == 0
    netsim("run", two, *plain, "--out", "plain")
    assert refused("plot", "plain", "--kind", "gantt") == (
        "training was not recorded; run it again with --set 'record=[\"jobs\", \"training\"]'\n")


def test_the_timeline_of_a_run_on_an_edge_cloud(netsim, two, here) -> None:
    """Of all that happened, whatever tables are kept."""
    plain = ("--set", 'record=["jobs"]')
    assert netsim("run", two, *plain, "--timeline", "--out", "seen").exit_code == 0
    assert not (here / "seen" / "training.csv").exists()
    events = json.loads((here / "seen" / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == [
        "upload", "training", "upload", "training", "job 0", "job 1"]
