"""One job first, the others behind it: who gets what is left."""

import pytest

import netsim
from netsim import JobSpec, Stage
from netsim.errors import UnknownNameError

#: Ports of 1 B/s. A job of 2 s, and one whose two flows take 1 and 4 s, the first over its ports.
NETWORK = netsim.big_switch(4, 1.0)
JOBS = [JobSpec(0, stages=[Stage("a", [(0, 1, 2)])], hosts=range(4)),
        JobSpec(1, stages=[Stage("a", [(0, 1, 1), (2, 3, 4)])], hosts=range(4))]


@pytest.mark.parametrize("name", ["srpt", "aalo-lbsf", "lccf"])
@pytest.mark.parametrize(("work", "ends"), [
    ("none", [2, 6]), ("greedy", [2, 6]), ("capped", [2, 6]), ("shared_uniform", [2, 6]),
    ("maxmin", [2, 4])])
def test_who_gets_what_the_first_leaves(name, work, ends):
    """Job 0 is first by each key, and has the ports of 0 -> 1 until 2 s.

    Job 1 keeps its flows in step, so that none of them moves before; then gamma is 4: 2 + 4. With
    max-min backfill 2 -> 3 sends from 0 on, 4 s, and 0 -> 1 from 2 to 4 s at most.
    """
    policy = {"name": name, "work_conservation": work}
    found = netsim.simulate(NETWORK, JOBS, allocator=policy).jobs["finish_s"].tolist()
    assert found == pytest.approx(ends)


@pytest.mark.parametrize("name", ["srpt", "aalo-lbsf", "lccf"])
def test_max_min_is_shared_anew_when_a_flow_ends(name):
    """Job 0 has port 0 until 4 s. Job 1 sends 1 B over 0 -> 2, 1 B over 2 -> 3, 4 B over 2 -> 0.

    The latter two share port 2 until 2 -> 3 ends at 2 s; then 2 -> 0, with 3 B left, has all of
    it and ends at 5 s, as 0 -> 2 does. At 1/2 B/s until 4 s it would end at 6 s.
    """
    jobs = [JobSpec(0, stages=[Stage("a", [(0, 1, 4)])], hosts=range(4)),
            JobSpec(1, stages=[Stage("a", [(0, 2, 1), (2, 3, 1), (2, 0, 4)])], hosts=range(4))]
    policy = {"name": name, "work_conservation": "maxmin"}
    found = netsim.simulate(NETWORK, jobs, allocator=policy).jobs["finish_s"].tolist()
    assert found == pytest.approx([4, 5])


@pytest.mark.parametrize("name", ["srpt", "aalo-lbsf", "lccf"])
def test_other_words_are_refused(name):
    with pytest.raises(UnknownNameError, match="choose from: capped, greedy, maxmin, none, sha"):
        netsim.make_allocator({"name": name, "work_conservation": "coflowsim"})


@pytest.mark.parametrize(("name", "work", "ends"), [
    *((name, work, [12, 3]) for name in ("aalo-lbsf", "lccf", "srpt")
      for work in ("none", "greedy", "capped", "shared_uniform", "maxmin"))])
def test_a_job_that_cannot_move_holds_up_no_other(name, work, ends):
    """Port 1 is dead until 10 s. Job 0, first by all keys, takes 2 s then; job 1 3 s from 0 on."""
    jobs = [JobSpec(0, stages=[Stage("a", [(0, 1, 2)])], hosts=range(4)),
            JobSpec(1, stages=[Stage("a", [(2, 3, 3)])], hosts=range(4))]
    events = [{"at": 0, "link": "ingress-1", "capacity": 0},
              {"at": 10, "link": "ingress-1", "capacity": 1}]
    policy = {"name": name, "work_conservation": work}
    found = netsim.simulate(NETWORK, jobs, allocator=policy, events=events).jobs["finish_s"]
    assert found.tolist() == pytest.approx(ends)


@pytest.mark.parametrize("sizes", [(0.1 + 0.2, 0.3), (0.3, 0.1 + 0.2), (0.3, 0.3)])
@pytest.mark.parametrize("record", [["jobs"], ["jobs", "decisions"]])
def test_srpt_takes_jobs_as_long_but_for_rounding_in_order(sizes, record):
    """0.1 + 0.2 is a rounding above 0.3; one decision after the other, and ahead of the clock."""
    jobs = [JobSpec(k, stages=[Stage("a", [(0, 1, size)])], hosts=range(4))
            for k, size in enumerate(sizes)]
    found = netsim.simulate(NETWORK, jobs, allocator="srpt", record=record).jobs["finish_s"]
    assert found.tolist() == pytest.approx([0.3, 0.6])
