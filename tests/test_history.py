"""Earlier jobs as the history of later ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import History, JobSpec, Workload
from netsim.errors import InputError
from netsim.workload import history_of, split_history
from netsim.workload.history import UNKNOWN


def job(id, arrival_s=0.0, iterations=1, group=None, user=None):
    return JobSpec(id, arrival_s, iterations, pattern="ring-all-reduce", ranks=1, group=group,
                   user=user)


def test_the_first_by_arrival_are_history():
    jobs = [job(0, 9, 70, 1, 5), job(1, 3, 10, 2, 6), job(2, 3, 20, 3, 7), job(3, 1, 30, 4, 8)]
    later = split_history(Workload(jobs, "mine", seed=3), 0.75)
    assert ([each.id for each in later], later.name, later.seed) == ([0], "mine", 3)
    assert later.jobs[0].arrival_s == 9
    assert later.history.group.tolist() == [4, 2, 3]
    assert later.history.user.tolist() == [8, 6, 7]
    assert later.history.iterations.tolist() == [30, 10, 20]


def test_a_history_that_is_there_stays_in_front():
    known = History([8], [9], [1.5])
    later = split_history(Workload([job(0, 0, 4, 1, 2), job(1, 1)], history=known), 0.5)
    assert later.history.group.tolist() == [8, 1]
    assert later.history.iterations.tolist() == [1.5, 4]


def test_who_says_nothing_is_unknown():
    known = history_of([job(0, user=3), job(1, group=2)])
    assert (known.group.tolist(), known.user.tolist()) == ([UNKNOWN, 2], [3, UNKNOWN])


@pytest.mark.parametrize(("jobs", "share", "count"), [(100, 0.29, 29), (10, 0.8, 8), (7, 0.5, 3)])
def test_shares_are_rounded_down_but_for_floats(jobs, share, count):
    assert len(split_history(Workload([job(id) for id in range(jobs)]), share).history) == count


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, True, "80%", None, float("nan")])
def test_other_shares_are_refused(share):
    with pytest.raises(InputError, match=r"^share must be a number in \(0, 1\), not "):
        split_history(Workload([job(0), job(1)]), share)


def test_too_few_jobs_are_refused():
    with pytest.raises(InputError, match=r"1 jobs, of which a share of 0\.8 leaves none"):
        split_history(Workload([job(0)]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=2, max_size=20),
       st.floats(0.01, 0.99))
def test_no_job_is_lost(rows, share):
    whole = Workload([job(id, arrival, iterations, group=id)
                      for id, (arrival, iterations) in enumerate(rows)])
    try:
        later = split_history(whole, share)
    except InputError:
        assert not 1 <= share * len(rows) < len(rows)
        return
    assert [*later.history.group, *(each.id for each in later)] == [each.id for each in whole]
    assert np.sum(later.history.iterations) + sum(each.iterations for each in later) == sum(
        each.iterations for each in whole)
