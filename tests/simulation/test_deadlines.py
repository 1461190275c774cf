"""Deadlines from a stage to the summary."""

import math

import pytest

import netsim
from netsim import JobSpec, Stage, Workload

NET = netsim.big_switch(4, 1.0)


def run(*stages, **options):
    """One job that computes for a second before each of its coflows."""
    job = JobSpec(0, stages=stages, hosts=range(4))
    return netsim.simulate(NET, Workload([job]), **options)


def chain(*deadlines):
    return [Stage(f"c{k}", [(0, 1, 2.0)], compute_s=1, after=(f"c{k - 1}",) if k else (),
                  deadline_s=due) for k, due in enumerate(deadlines)]


def test_a_deadline_counts_from_the_coflows_validity():
    """Valid at 1, 4 and 7, each takes 2 s: the first in time to the second, the second not."""
    result = run(*chain(2, "1900ms", None))
    assert result.coflows["valid_s"].tolist() == [1, 4, 7]
    assert result.coflows["deadline_s"].tolist()[:2] == [3, 5.9]
    assert math.isnan(result.coflows["deadline_s"][2])
    summary = result.summary()
    assert (summary["deadlines"], summary["deadlines_met"]) == (2, 0.5)


def test_each_iteration_has_its_own():
    job = JobSpec(0, stages=chain(2), hosts=range(4), iterations=2)
    assert netsim.simulate(NET, Workload([job])).coflows["deadline_s"].tolist() == [3, 6]


def test_without_deadlines_the_summary_says_nothing():
    assert "deadlines_met" not in run(*chain(None)).summary()
    assert "deadlines_met" not in run(*chain(2), record=["jobs"]).summary()


def test_what_is_overdue_when_the_run_is_stopped_has_missed_its_deadline():
    """Valid at 1 and due at 2, with 2 bytes to send by 3. Stopped at 1.5 nobody knows yet."""
    assert run(*chain(1), until=2.5).summary()["deadlines_met"] == 0
    assert "deadlines" not in run(*chain(1), until=1.5).summary()


def test_a_coflow_without_bytes_is_in_time():
    assert run(Stage("empty", [], deadline_s=1e-9)).summary()["deadlines_met"] == 1


@pytest.mark.parametrize(("late_s", "met"), [(1e-9, 1.0), (1e-6, 0.0)])
def test_a_rounding_is_in_time(late_s, met):
    """2 bytes at 1 byte/s, valid at 1, end at 3."""
    assert run(*chain(2 - late_s)).summary()["deadlines_met"] == met


def test_what_a_policy_sees_is_the_instant():
    seen = []

    class Looking(netsim.Allocator):
        def allocate(self, view):
            seen.append(view.deadline_s.tolist())
            return netsim.Allocation(view.maxmin())

    run(*chain(2, None), allocator=Looking)
    assert seen == [[3], [math.inf]]
