"""`netsim.simulate`: what it takes and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import netsim
from netsim import JobSpec, Stage
from netsim.errors import InputError

NET = netsim.big_switch(2, 1e6)
JOB = JobSpec(0, stages=[Stage("push", [(0, 1, 3e6)])])


def test_a_workload_is_its_jobs_as_well() -> None:
    """3 MB at 1 MB/s: 3 s, however the job is handed over."""
    for workload in ([JOB], (JOB,), netsim.Workload([JOB])):
        assert netsim.simulate(NET, workload).jobs["jct_s"].tolist() == [3]
        assert netsim.compare(NET, workload, ["fifo"]).table["jct_total_s"][0] == 3


@pytest.mark.parametrize(("arguments", "message"), [
    ({"network": 5}, "network must be a Topology, a name or a path, not 5"),
    ({"network": {"hosts": 2}}, "network must be a Topology, a name or a path, not {'hosts'"),
    ({"workload": JOB}, "workload 'workload': jobs must be a list of JobSpec, not JobSpec"),
    ({"workload": [{"id": 0}]}, "jobs must be a list of JobSpec, but holds {'id': 0}"),
    ({"workload": 5}, "jobs must be a list of JobSpec, not 5"),
    ({"events": 5}, "events must be a list of FaultEvent or mappings, not 5"),
    ({"events": [5]}, "events must be a list of FaultEvent or mappings, but"),
    ({"events": {"at": 1, "link": 0, "capacity": 0}}, "events must be a list of "),
    ({"record": "jobs"}, "record must be a list of names, not 'jobs'"),
    ({"record": 5}, "record must be a list of names, not 5"),
    ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
    ({"until": 0}, "until must be greater than 0, not 0"),
])
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        netsim.simulate(**{"network": NET, "workload": [JOB]} | arguments)
    assert message in str(caught.value)


def test_names_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"jobs": [{"coflows": [[{"src": 0, "dst": 1, "bytes": 9}]]}]}')
    for workload in (path, str(path)):
        assert netsim.simulate("parrot-fig2", workload).jobs["bytes"].tolist() == [9]


@pytest.mark.parametrize(("until", "finished", "stopped"), [
    (None, 2, None), (3.0, 1, 3.0), (5.0, 1, 5.0), (6.0, 2, None), (7.0, 2, None)])
def test_a_result_says_whether_it_was_stopped(until, finished, stopped) -> None:
    """Two jobs of 3 MB, one after the other: they end at 3 and at 6 s."""
    jobs = [JOB, JobSpec(1, arrival_s=3.0, stages=JOB.stages)]
    result = netsim.simulate(NET, jobs, until=until)
    assert result.summary()["jobs_finished"] == finished
    assert result.run["stopped_at_s"] == result.summary()["stopped_at_s"] == stopped
