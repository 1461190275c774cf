"""The virtual machine of A-SRPT against stepping by hand and against the least possible sum."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.cluster.virtual import VirtualMachine


def completions(jobs):
    """Run jobs (arrival, size) to the end; return (instant, job) in order of completion."""
    machine = VirtualMachine()
    found = []

    def collect(now):
        found.extend((now, job) for job in machine.completed(now))

    for job, (arrival, size) in enumerate(jobs):
        while machine.next_completion <= arrival:
            collect(machine.next_completion)
        machine.arrive(arrival, job, size)
        collect(arrival)
    while machine.next_completion < float("inf"):
        collect(machine.next_completion)
    return found


def test_a_shorter_job_goes_first_and_ties_break_by_arrival():
    """At 2 the first has 8 left; at 4 the second 1, as much as the third, which came later."""
    assert completions([(0, 10), (2, 3), (4, 1)]) == [(5, 1), (6, 2), (14, 0)]


def test_completions_precede_arrivals_and_nothing_takes_no_time():
    assert completions([(0, 3), (3, 0), (3, 1)]) == [(3, 0), (3, 1), (4, 2)]
    assert completions([(0, 5), (1, 0), (1, 2)]) == [(1, 1), (3, 2), (7, 0)]
    assert [job for _, job in completions([(0, 0)] * 3)] == [0, 1, 2]


small = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), min_size=1, max_size=6).map(
    lambda jobs: sorted(jobs, key=lambda job: job[0]))


@given(small)
def test_work_is_conserved_and_no_order_gives_a_smaller_sum(jobs):
    """Busy whenever there is work; the sum of completion times is that of the best order by unit.

    Sizes and arrivals are whole: serving by units of 1 in the best static priority is as good as
    any preemptive schedule on one machine.
    """
    found = completions(jobs)
    assert sorted(job for _, job in found) == list(range(len(jobs)))
    clock = 0
    for arrival, size in jobs:
        clock = max(clock, arrival) + size
    # The last to complete ends when a machine that is never idle with work to do would.
    assert max(instant for instant, _ in found) == pytest.approx(
        max(clock, max(arrival for arrival, _ in jobs)))
    least = min(sum(by_priority(jobs, order))
                for order in itertools.permutations(range(len(jobs))))
    assert sum(instant for instant, _ in found) == pytest.approx(least)


def by_priority(jobs, order):
    """Return completion times if who comes first in an order is always served, unit by unit."""
    left = [size for _, size in jobs]
    ends = [float(arrival) if size == 0 else 0.0 for arrival, size in jobs]
    clock = 0
    while any(left):
        job = next((job for job in order if left[job] and jobs[job][0] <= clock), None)
        clock += 1
        if job is not None:
            left[job] -= 1
            if not left[job]:
                ends[job] = clock
    return ends
