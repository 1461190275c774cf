"""Parrot where a job has several coflows at once: the rule of Section 7."""

import pytest

import netsim
from tests.allocators.test_orders_stand import ways

JobSpec, Stage = netsim.JobSpec, netsim.Stage


@pytest.mark.parametrize("work", ["none", "uniform", "backfill", "per_flow"])
def test_parrots_coflows_that_have_equally_much_left(work):
    """Job 7 sends "a" of 0.3 MB and "b" of 1 MB over one link of 1 MB/s; "b", the larger, is first.

    At 0.7 s, when job 9 begins elsewhere, both have 0.3 MB left up to rounding: a tie, and "a" is
    the earlier one in the job. It ends at 1 s.
    """
    both = [Stage("a", [(0, 1, 3e5)]), Stage("b", [(0, 1, 1e6)])]
    jobs = [JobSpec(7, hosts=range(4), stages=both),
            JobSpec(9, arrival_s=0.7, hosts=range(4), stages=[Stage("c", [(2, 3, 2e6)])])]
    for each in ways({"name": "parrot", "work_conservation": work}):
        done = netsim.simulate(netsim.big_switch(4, 1e6), jobs, allocator=each).coflows
        at = dict(zip(done["stage"], done["finish_s"], strict=True))
        assert at["a"] == pytest.approx(1.0, rel=1e-9)
        assert at["b"] > 1.2


@pytest.mark.parametrize("work", ["backfill", "per_flow"])
def test_parrots_coflows_that_are_equally_late(work):
    """Those of 0.1 + 0.2 s and of 0.3 s become valid at once: the larger, of 2 MB, ends at 2.3 s.

    By the digits, the smaller one would be later, and first.
    """
    late = [Stage("x", None, compute_s=0.1),
            Stage("small", [(0, 1, 1e6)], compute_s=0.2, after=["x"]),
            Stage("large", [(0, 1, 2e6)], compute_s=0.3)]
    jobs = [JobSpec(1, hosts=range(4), stages=late)]
    for each in ways({"name": "parrot", "work_conservation": work}):
        done = netsim.simulate(netsim.big_switch(4, 1e6), jobs, allocator=each).coflows
        at = dict(zip(done["stage"], done["finish_s"], strict=True))
        assert (at["large"], at["small"]) == (pytest.approx(2.3), pytest.approx(3.3))


@pytest.mark.parametrize("work", ["backfill", "per_flow"])
def test_the_latest_coflow_of_a_job_is_first(work):
    """Of 4 MB at 1 MB/s, 3 are left at 1 s, when 1 MB more comes: that ends at 2 s, the rest at 5.

    By length, the first one would go on.
    """
    both = [Stage("early", [(0, 1, 4e6)]), Stage("late", [(0, 1, 1e6)], release_s=1.0)]
    for each in ways({"name": "parrot", "work_conservation": work}):
        done = netsim.simulate(netsim.big_switch(4, 1e6), [JobSpec(0, hosts=range(4), stages=both)],
                               allocator=each).coflows
        at = dict(zip(done["stage"], done["finish_s"], strict=True))
        assert (at["late"], at["early"]) == (pytest.approx(2.0), pytest.approx(5.0))


def test_a_pipelined_job_alone():
    """Host 0 reduces 6 MB, and sends 1 MB for which host 1 waits, at once, at 1 MB/s.

    Host 1 then reduces 6 MB over other ports. With the small one first this takes 1 + 6 s, the
    lower bound. Under max-min the small one ends at 2 s, so all ends at 8 s. The rule of Section 7
    sends the larger first, so that the small one ends at 7 s, and all at 13 s.
    """
    stages = [Stage("reduce-late", [(0, 2, 6e6)]), Stage("send", [(0, 1, 1e6)]),
              Stage("reduce-early", [(1, 3, 6e6)], after=["send"])]
    job = JobSpec(0, hosts=range(4), stages=stages)
    for policy, expected in (("maxmin", 8.0), ("sebf", 7.0)):
        done = netsim.simulate(netsim.big_switch(4, 1e6), [job], allocator=policy).jobs
        assert (done["finish_s"][0], done["lower_bound_s"][0]) == (pytest.approx(expected), 7.0)
    for each in ways({"name": "parrot"}):
        done = netsim.simulate(netsim.big_switch(4, 1e6), [job], allocator=each).jobs
        assert done["finish_s"][0] == pytest.approx(13.0)
