"""Decisions by an order: counting GPUs is the same as trying to place jobs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.errors import AllocationError, InputError
from netsim.placements.mapped import MappedPlacement
from netsim.placements.placement import Consolidated, LeastBusyServers
from netsim.schedulers.attained import LAS, Tiresias, TiresiasL
from netsim.schedulers.in_order import After, InOrder, Keys
from netsim.schedulers.kernels import before
from tests.examples import examples


class Trying(MappedPlacement):
    """The same placement, which does not say that any free GPUs do."""

    refuses = True


@pytest.mark.parametrize("scheduler", ["srtf", "srtf:backfill=false", "tiresias", "las"])
def test_counting_decides_as_placing_does(scheduler):
    jobs = netsim.read_workload(format="recurrent", jobs=60, train=0, max_gpus=16,
                                mean_interarrival="10s", most_iterations=8, seed=2)
    runs = [netsim.simulate(netsim.Cluster(servers=2, gpus=8, nic="10Gbps"), jobs,
                            scheduler=scheduler, placement=placement(servers="most"),
                            execution="asrpt",
                            preemption={"keep": "fraction", "restore_s": 10, "checkpoint_s": 5})
            for placement in (MappedPlacement, Trying)]
    counted, tried = (run.gpus.to_dict("list") for run in runs)
    assert counted == tried
    assert runs[0].jobs["preemptions"].sum() > 0


class TryingAll(Consolidated):
    """The same placement, which does not say that it refuses by size."""

    refuses_by_size = False


class TryingAllOfTheLeastBusy(LeastBusyServers):
    """Likewise; what it refuses changes as jobs come, since these are work for servers."""

    refuses_by_size = False


@settings(deadline=None, max_examples=examples(15), derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 1, 2, 3, 4, 6, 8]),
                          st.integers(1, 9)), min_size=6, max_size=16),
       st.integers(2, 4), st.integers(3, 5),
       st.sampled_from(["srtf", "srtf:backfill=false", "las:quantum_s=3", "sjf:backfill=true",
                        "tiresias:thresholds=[4,9]"]),
       st.sampled_from([(Consolidated, TryingAll), (LeastBusyServers, TryingAllOfTheLeastBusy)]),
       st.sampled_from([0, 1]))
def test_trying_one_of_a_size_decides_as_trying_all(drawn, servers, gpus, scheduler, placements,
                                                    cost):
    cluster = netsim.Cluster(servers=servers, gpus=gpus, nic="10Gbps")
    jobs = [netsim.JobSpec(k, at, long, pattern="ring-all-reduce", ranks=min(wide, servers * gpus),
                           nbytes=0, compute_s=1.0) for k, (at, wide, long) in enumerate(drawn)]
    one, every = (netsim.simulate(cluster, jobs, scheduler=scheduler, placement=placement(),
                                  execution="asrpt",
                                  preemption={"checkpoint_s": cost, "restore_s": cost})
                  for placement in placements)
    assert one.gpus.to_dict("list") == every.gpus.to_dict("list")


class CountingChoices(Consolidated):
    """Counts how often it is asked."""

    asked = 0

    def choose(self, *args):
        type(self).asked += 1
        return super().choose(*args)


@pytest.mark.parametrize("scheduler", ["srtf", "sjf:backfill=true"])
def test_a_long_queue_is_not_tried_job_by_job(scheduler, monkeypatch):
    """Jobs of 3 GPUs on three servers of 4: one runs on each, and the 3 GPUs left suit no other.

    When one ends another one comes, and one more is tried in vain, however many wait.
    """
    asked = []
    for count in (10, 100):
        monkeypatch.setattr(CountingChoices, "asked", 0)
        jobs = [netsim.JobSpec(k, 0, 1 + k, pattern="ring-all-reduce", ranks=3,
                               nbytes=0, compute_s=1.0) for k in range(count)]
        netsim.simulate(netsim.Cluster(servers=3, gpus=4), jobs, scheduler=scheduler,
                        placement=CountingChoices(), execution="asrpt")
        asked.append(CountingChoices.asked / count)
    assert asked[1] == pytest.approx(asked[0], rel=0.3)


# --- orders of one's own --------------------------------------------------------------------------

class Given(InOrder):
    """An order with the keys that a function returns for the number of jobs."""

    def __init__(self, found):
        super().__init__()
        object.__setattr__(self, "found", found)

    def keys(self, view, jobs):
        return self.found(len(jobs))


def run_two(scheduler):
    jobs = [netsim.JobSpec(id_, pattern="ring-all-reduce", ranks=1, compute_s=1.0)
            for id_ in (7, 9)]
    return netsim.simulate(netsim.Cluster(gpus=[1]), jobs, scheduler=scheduler, execution="asrpt")


@pytest.mark.parametrize(("found", "message"), [
    (lambda n: Keys(value=[1.0, math.nan][:n]),
     "value of the keys of job 9 must be finite, not nan"),
    (lambda n: Keys(value=math.inf), "value of the keys of job 7 must be finite, not inf"),
    (lambda n: Keys(level=-math.inf),
     "level of the keys of job 7 must be a number, or inf, not -inf"),
    (lambda n: Keys(tie=np.array([math.nan, 0.0])),
     "tie of the keys of job 7 must be a number, inf"),
    (lambda n: Keys(value=np.zeros(3)),
     r"value of the keys of 2 jobs at 0 s must be a number, or an "
     r"array of numbers of shape \(2,\), not an array of shape \(3,\)"),
    (lambda n: Keys(level=np.zeros((n, 1))),
     r"level of the keys .* not an array of shape \(2, 1\)"),
    (lambda n: Keys(value="first"), "value of the keys of 2 jobs .*, not 'first'"),
    (lambda n: Keys(tie=[[1.0], [2.0, 3.0]]), "tie of the keys of 2 jobs .*, not "),
    (lambda n: Keys(tie=None), "tie of the keys of 2 jobs .*, not None"),
    (np.zeros, r"keys must return Keys\(level, value, tie\), not array"),
    (lambda n: None, r"keys must return Keys\(level, value, tie\), not None")])
def test_keys_that_are_none(found, message):
    with pytest.raises(AllocationError, match=f"scheduler Given: {message}"):
        run_two(Given(found))


def test_keys_of_any_kind_of_number():
    """Whole numbers, truth values, lists and infinite ties; job 9 comes before job 7."""
    done = run_two(Given(lambda n: Keys(level=[True, False][:n] if n > 1 else 1, value=1,
                                        tie=-math.inf)))
    assert done.jobs["finish_s"].tolist() == [2.0, 1.0]


def test_what_holds_gpus_after_many_preemptions():
    """Of 5 jobs with GPUs two are preempted, and one of these and another one start."""
    class View:
        holding = np.array([4, 1, 0, 3, 2])

        def ready(self, jobs):
            return jobs * 10.0

        def ready_on(self, job, gpus):
            return 100.0 + job

    jobs, ready = After(View(), [1, 3], [(3, np.array([0])), (6, np.array([1]))], [1]).holding()
    assert jobs.tolist() == [4, 0, 2, 3, 6]
    assert ready.tolist() == [40.0, 0.0, 20.0, 103.0, 106.0]


@pytest.mark.parametrize("kind", [Tiresias, TiresiasL])
@pytest.mark.parametrize(("given", "message"), [
    ([], "thresholds must list at least one number of GPU-seconds"),
    ({3, 2}, "thresholds must not be a set"), (object(), "thresholds must be a list of GPU-sec"),
    ({"a": 1}, "thresholds must be a list of GPU-sec"), (["a"], "thresholds 'a' is not a number"),
    ([None], "thresholds must be a number or a string"), (True, "thresholds must be a number"),
    ([3, 2], r"thresholds must ascend, unlike \[3, 2\]"), ([3, 3], "thresholds must ascend"),
    ([0, 2], "thresholds must be"), ([1, math.nan], "thresholds must be")])
def test_odd_thresholds(kind, given, message):
    with pytest.raises(InputError, match=message):
        kind(thresholds=given)


def test_no_thresholds():
    """By default those of Tiresias-L are found in a run; `Tiresias` has some."""
    assert TiresiasL(thresholds=None).thresholds is None
    with pytest.raises(InputError, match=r"thresholds must be a list of GPU-seconds, .* not None"):
        Tiresias(thresholds=None)


def test_jobs_that_need_no_service_have_no_mean():
    """The thresholds are not the user's, so the error says where they come from."""
    jobs = [netsim.JobSpec(k, ranks=1, pattern="ring-all-reduce", nbytes=0) for k in range(2)]
    with pytest.raises(InputError, match=r"derives its thresholds from the mean .* the 2 jobs of"):
        netsim.simulate(netsim.Cluster(2, 2, nic="10Gbps"), jobs, scheduler="tiresias-l")


@pytest.mark.parametrize("kind", [Tiresias, TiresiasL, LAS])
@pytest.mark.parametrize("given", [None, 3, "hold", ["held"], np.array(["held", "run"])])
def test_odd_service(kind, given):
    with pytest.raises(InputError, match=r"unknown service .*; choose from: held, run"):
        kind(service=given)


def test_values_that_rounding_makes_differ_tie():
    """0.1 + 0.2 is a rounding above 0.3: the tie of 0, before 1, decides that the job is before."""
    keys = (np.array([each]) for each in (0.0, 0.1 + 0.2, 0.0))
    found = before(*keys, np.array([5]), np.array([8]), 0.0, 0.3, 1.0, 2)
    assert found == (8, 1)
