"""Coflows have one id each in the results, drawn or given."""

from __future__ import annotations

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage
from netsim.errors import InputError

NET = netsim.big_switch(4, 1e6)


def coflows(*jobs: JobSpec) -> list[int]:
    """Return the ids by (job, iteration, stage)."""
    table = netsim.simulate(NET, netsim.Workload(jobs)).coflows
    return table.sort_values(["job", "iteration", "stage"])["coflow"].tolist()


def stages(*ids: int | None) -> list[Stage]:
    return [Stage(f"s{k}", [(0, 1, 1e6)], coflow_id=each) for k, each in enumerate(ids)]


def test_numbers_go_by_job_iteration_and_stage() -> None:
    assert coflows(JobSpec(7, stages=stages(None, None), iterations=2),
                   JobSpec(9, stages=stages(None))) == [0, 1, 2, 3, 4]


def test_numbers_skip_ids_that_stages_have() -> None:
    """By place job 0 has the numbers 0 to 3, job 1 has 4 and 5, job 2 has 6, job 3 has 7.

    2, 3 and 5 are taken, so that the free ids are 0, 1, 4, 6, 7, 8, 9, 10: the numbers 0 to 3
    are the ids 0, 1, 4, 6, and 7 is 10.
    """
    assert coflows(JobSpec(0, stages=stages(None, None), iterations=2),
                   JobSpec(1, stages=stages(5, 3)),
                   JobSpec(2, stages=stages(2)),
                   JobSpec(3, stages=stages(None))) == [0, 1, 4, 6, 5, 3, 2, 10]


@pytest.mark.parametrize("given", [[0, 1, 2], [2, 1, 0], [1, 5, 7], [10**15]])
def test_no_two_are_the_same(given) -> None:
    rng = np.random.default_rng(1)
    jobs = [JobSpec(k, stages=stages(each)) for k, each in enumerate(given)]
    jobs += [JobSpec(len(given) + k, stages=stages(*[None] * int(rng.integers(1, 4))))
             for k in range(5)]
    found = coflows(*jobs)
    assert len(set(found)) == len(found)
    assert found[:len(given)] == given


class Counting:
    """One flow, in as many stages as its list says, draw by draw; counts the draws."""

    def __init__(self, *counts: int, coflow_id: int | None = None) -> None:
        self.counts, self.draws, self.coflow_id = counts, 0, coflow_id

    def stages(self, ranks, nbytes, rng):
        count = self.counts[min(self.draws, len(self.counts) - 1)]
        self.draws += 1
        return tuple(Stage(f"s{k}", [(0, 1, nbytes)], coflow_id=self.coflow_id)
                     for k in range(count))


def test_a_pattern_is_drawn_once_more_for_all_its_jobs() -> None:
    """Ten jobs of one pattern: one draw to count its stages, and one for each job."""
    pattern = Counting(2)
    jobs = [JobSpec(k, pattern=pattern, ranks=2, nbytes=1e6) for k in range(10)]
    assert coflows(*jobs) == list(range(20))
    assert pattern.draws == 1 + 10


@pytest.mark.parametrize(("pattern", "message"), [
    (Counting(2, 3), "job 0: its pattern draws 3 stages in iteration 0, where it drew 2 before"),
    (Counting(0), "job 0: the result of its pattern must be one or more"),
    (Counting(1, coflow_id=3), "must be one or more stages without a coflow_id, not .Stage"),
])
def test_patterns_that_cannot_be_numbered(pattern, message) -> None:
    with pytest.raises(InputError, match=message):
        coflows(JobSpec(0, pattern=pattern, ranks=2, nbytes=1e6, redraw=True, iterations=2))


def test_a_pattern_returns_stages() -> None:
    class Dicts:
        def stages(self, ranks, nbytes, rng):
            return [{"name": "a"}]

    class Nothing:
        def stages(self, ranks, nbytes, rng):
            return None

    with pytest.raises(InputError, match="its pattern must be a list of Stage, but holds"):
        coflows(JobSpec(0, pattern=Dicts(), ranks=2))
    with pytest.raises(InputError, match="its pattern must be a list of Stage, not None"):
        coflows(JobSpec(0, pattern=Nothing(), ranks=2))


def test_a_pattern_may_yield_its_stages() -> None:
    class Yields:
        def stages(self, ranks, nbytes, rng):
            yield Stage("a", [(0, 1, nbytes)])
            yield Stage("b", [(1, 0, nbytes)], after=["a"])

    assert coflows(JobSpec(0, pattern=Yields(), ranks=2, nbytes=1e6)) == [0, 1]
