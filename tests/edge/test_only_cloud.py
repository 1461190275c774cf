"""The warning that everything goes to the cloud, because nothing else can serve it."""

from __future__ import annotations

import re
import warnings

import pytest

import netsim
from netsim import EdgeCloud, EdgeJob, NetsimWarning
from netsim.edge.schedule import why_only_cloud
from netsim.edge.setting import EdgeSetting

EDGE = EdgeCloud([["a"], ["b", "c"]], storage=["1GB", "2GB"])


def job(number: int, **options: object) -> EdgeJob:
    return EdgeJob(**{"id": number, "compute_s": 1.0, "cloud_upload_s": 9.0} | options)


def why(*jobs: EdgeJob, system: EdgeCloud = EDGE) -> str:
    return why_only_cloud(EdgeSetting(system, jobs))


LARGE = job(0, worker_type="a", chunk_bytes="1.5GB")  # as server 1 has none of its workers
OTHER = job(1, worker_type="x")


def test_the_reasons() -> None:
    assert why(LARGE) == ("no server can store a chunk of the jobs: the smallest chunk has 1.5 GB, "
                          "the largest storage 1 GB")
    assert why(OTHER) == ("no worker of the edge has a type that the jobs need, 'x'; the edge has "
                          "'a', 'b', 'c'")
    assert why(LARGE, OTHER) == (
        "no worker of the edge has a type that 1 of 2 jobs need, 'x'; the edge has 'a', 'b', 'c'; "
        "and no server can store a chunk of 1 of 2 jobs: the smallest chunk has 1.5 GB, the "
        "largest storage 1 GB")
    assert why(OTHER, system=EdgeCloud([[]])).endswith("; the edge has none")
    assert why(*(job(k, worker_type=k) for k in range(9))).startswith(
        "no worker of the edge has a type that the jobs need, 0, 1, 2, 3, 4, 5, ...; the edge")


@pytest.mark.parametrize("jobs", [
    [LARGE, job(1, worker_type="b", chunk_bytes="2GB")],  # one that just fits is enough
    [OTHER, job(2, worker_type="a")]])
def test_one_job_that_the_edge_can_serve_is_enough(jobs) -> None:
    assert why(*jobs) == ""


def test_the_warning_is_right() -> None:
    """Whoever is warned of finds the cloud alone in the result."""
    with pytest.warns(NetsimWarning, match=re.escape(
            "everything goes to the cloud, because nothing else can serve it: no server")):
        result = netsim.simulate(EDGE, [LARGE])
    assert result.jobs["zeta"].tolist() == [1]
    with pytest.warns(NetsimWarning, match="no worker of the edge has a type that the jobs need"):
        result = netsim.simulate(EDGE, [OTHER], scheduler="batch")
    assert result.jobs["zeta"].tolist() == [1]


def test_nobody_is_warned_of_what_was_asked_for() -> None:
    netsim.simulate(EDGE, [LARGE, OTHER], scheduler="cloud-only")


def test_a_comparison_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        netsim.compare(EDGE, [OTHER], schedulers=["a-online", "cloud-only", "batch"])
    assert len(caught) == 1


def test_a_sweep_warns_when_it_is_prepared(tmp_path) -> None:
    """In the process that the user sees; those of its runs say nothing."""
    (tmp_path / "mine.toml").write_text("""\
[edge_cloud]
kind = "edge-listed"
workers = [["a"]]
storage = "1GB"
[workload]
format = "edge-listed"
jobs = [{ worker_type = "a", compute_s = 1, chunk_bytes = "2GB" }]
""")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        swept = netsim.sweep_experiment(tmp_path / "mine.toml", {
            "edge_cloud.storage": ["1GB", "3GB"]}, seeds=[1, 2])
    assert [str(each.message).rpartition("largest")[2] for each in caught] == [" storage 1 GB"]
    assert swept.table["cloud_chunks"].tolist() == [1, 1, 0, 0]
