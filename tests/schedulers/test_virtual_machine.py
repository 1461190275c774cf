"""The virtual machine of A-SRPT against stepping by hand and against the least possible sum."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netsim.schedulers.a_srpt import VirtualMachine


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


@pytest.mark.parametrize("origin", [0.0, 3.0, 1e6])
def test_what_is_left_ties_but_for_rounding(origin):
    """Sizes 0.35 at 0.3 and 0.05 at 0.6: at 0.6 both have 0.05 left, and the first came first.

    0.35 - (0.6 - 0.3) is 0.05 plus some 1e-17, and at an origin of 1e6 plus some 1e-11.
    """
    found = completions([(origin + 0.3, 0.35), (origin + 0.6, 0.05)])
    assert [job for _, job in found] == [0, 1]
    assert [instant - origin for instant, _ in found] == pytest.approx([0.65, 0.7])


def test_less_left_by_more_than_rounding_is_no_tie():
    assert [job for _, job in completions([(0, 1 + 1e-7), (0, 1.0)])] == [1, 0]
    assert [job for _, job in completions([(0, 1 + 1e-11), (0, 1.0)])] == [0, 1]
    assert [job for _, job in completions([(0, 7.2e6), (1, 0.003), (1, 0.002)])] == [2, 1, 0]


@given(small, st.sampled_from([0.1, 0.7, 1 / 3, 60.0]), st.sampled_from([0.0, 1e3, 1e6]))
@example([(3, 4), (6, 1)], 0.1, 0.0)
def test_the_unit_of_time_makes_no_difference(jobs, unit, origin):
    """Whole numbers are exact; their multiples of a unit from an origin on are rounded."""
    exact = completions(jobs)
    found = completions([(origin + at * unit, size * unit) for at, size in jobs])
    assert [job for _, job in found] == [job for _, job in exact]
    assert [instant - origin for instant, _ in found] == pytest.approx(
        [instant * unit for instant, _ in exact], abs=64 * np.spacing(max(origin, 100)))


def test_many_that_tie_complete_in_order_of_arrival_and_number():
    """All have 0.3 left, three of them as 0.1 + 0.2."""
    sizes = [0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2]
    found = completions([(0, size) for size in sizes])
    assert [job for _, job in found] == list(range(6))
    assert found[-1][0] == pytest.approx(math.fsum(sizes))
