"""Frozen data: what a job and a workload may be."""

import dataclasses

import numpy as np
import pytest

from netsim.errors import InputError, NetsimWarning
from netsim.workload import Workload
from netsim.workload.columns import Flow, Flows
from netsim.workload.job import JobSpec, Stage

PUSH = Stage("push", [(0, 1, 10.0)])


def test_flows_from_tuples_and_back():
    flows = Flows.of([(0, 1, 10), Flow(1, 2, 5.5)])
    assert list(flows) == [Flow(0, 1, 10.0), Flow(1, 2, 5.5)]
    assert flows.ranks == 3
    assert Flows.of([]).ranks == 0


def test_flows_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        PUSH.flows.nbytes[0] = 1


@pytest.mark.parametrize(("args", "message"), [
    (([0], [1], [-1.0]), "flow 0 has .*-1.0.* bytes"),
    (([0, 0], [1, 1], [1.0, np.nan]), "flow 1 has .*nan.* bytes"),
    (([0], [1], [np.inf]), "inf"),
    (([0], [1], [1e101]), r"flow 0 has .*1e\+101.* bytes; a size must be from 0 to 1e\+100"),
    (([0, -1], [1, 2], [1.0, 1.0]), "flow 1 goes from host -1 to host 2; hosts are numbered"),
    (([0, 1], [1], [1.0]), "one length, not 2, 1 and 1"),
    (([0.5], [1], [1.0]), "src must be whole numbers"),
    ((["a"], [1], [1.0]), "src must be a list of numbers"),
    (([[0], [0, 1]], [1], [1.0]), "src must be a list of numbers"),
])
def test_flows_refused(args, message):
    with pytest.raises(InputError, match=message):
        Flows(*args)


@pytest.mark.parametrize("flows", [5, [(0, 1)], [0, 1, 5.0], [(0, 1, 5.0), (0, 1)]])
def test_flows_are_triples(flows):
    with pytest.raises(InputError, match=r"flows must be a list of tuples \(src, dst, nb"):
        Stage("x", flows)


@pytest.mark.parametrize(("changes", "message"), [
    ({"stages": ()}, "give either stages, a pattern, a model or operations"),
    ({"pattern": "all-to-all"}, "give either stages, a pattern, a model or operations"),
    ({"iterations": 0}, "iterations must be a whole number of at least 1, not 0"),
    ({"iterations": 1.5}, "not 1.5"),
    ({"iterations": True}, "not True"),
    ({"name": {"a": 1}}, "job 7: name must be a string, not {'a': 1}"),
    ({"arrival_s": -1}, "job 7: arrival_s must be at least 0, not -1"),
    ({"compute_s": np.nan}, "compute_s must be finite"),
    ({"hosts": (0,)}, "2 ranks need 2 hosts, not 1"),
    ({"hosts": [0.5, 1.7]}, "job 7: hosts must be a list of names or numbers, but holds 0.5"),
    ({"hosts": 3}, "job 7: hosts must be a list of names or numbers, not 3"),
    ({"hosts": "01"}, "job 7: hosts must be a list of names or numbers, not '01'"),
    ({"hosts": (0, -1)}, "job 7: hosts must be whole numbers of at least 0, or names, not -1"),
    ({"hosts": [0, True]}, "job 7: hosts must be whole numbers of at least 0, or names, not True"),
    ({"hosts": np.array([0.0, 1.0])}, "job 7: hosts must be a list of names or numbers, but holds"),
    ({"ranks": 2.5}, "job 7: ranks must be a whole number of at least 0, not 2.5"),
    ({"stages": [{"name": "push"}]}, "job 7: stages must be a list of Stage, but holds {'name'"),
    ({"stages": PUSH}, "job 7: stages must be a list of Stage, not Stage"),
    ({"stages": [Stage("a", coflow_id=4)], "iterations": 2},
     "job 7: stage 'a' has the coflow_id 4, which 2 iterations would repeat; leave it out"),
    ({"stages": (PUSH, PUSH)}, "two stages are named 'push'"),
    ({"stages": (Stage("a", after=("b",)), Stage("b", after=("a",)))},
     "dependency cycle among stages a, b"),
    ({"stages": (Stage("a", after=("nobody",)),)}, "depends on 'nobody', which is not one of"),
    ({"stages": (Stage("a", finishes_before=("a",)),)}, "dependency cycle among stages a"),
])
def test_jobs_refused(changes, message):
    with pytest.raises(InputError, match=message):
        JobSpec(**{"id": 7, "stages": (PUSH,)} | changes)


@pytest.mark.parametrize("ranks", [0, -1, 2.5, True])
def test_a_pattern_needs_ranks(ranks):
    with pytest.raises(InputError, match=f"ranks must be a whole .* at least 1, not {ranks}"):
        JobSpec(0, pattern="all-to-all", ranks=ranks)


@pytest.mark.parametrize("job", [-1, 1.5, "a", True, 10**15 + 1])
def test_ids_are_whole_numbers(job):
    with pytest.raises(InputError, match=f"id must be a whole number from 0 to 1,0.* not {job!r}"):
        JobSpec(job, stages=[PUSH])


@pytest.mark.parametrize("coflow", [-1, 1.5, "a", True, 10**15 + 1])
def test_ids_of_coflows_too(coflow):
    with pytest.raises(InputError, match=f"coflow_id must be a whole number .* not {coflow!r}"):
        Stage("x", coflow_id=coflow)


def test_hosts_are_plain_integers():
    """NumPy's are taken, whatever they come in."""
    for hosts in (np.array([3, 4]), (np.int32(3), 4), iter([3, 4])):
        job = JobSpec(0, stages=[PUSH], hosts=hosts)
        assert job.hosts == (3, 4)
        assert {type(host) for host in job.hosts} == {int}


@pytest.mark.parametrize(("keys", "message"), [
    ({"name": 5}, "stage 5: name must be a string, not 5"),
    ({"after": 5}, "stage 'x': after must be a list of names, not 5"),
    ({"finishes_before": [5]}, "stage 'x': finishes_before must be a list of names, but holds 5"),
])
def test_stages_refused(keys, message):
    with pytest.raises(InputError, match=message):
        Stage(**{"name": "x"} | keys)


def test_quantities_are_parsed_where_they_come_in():
    job = JobSpec(0, "5s", pattern="all-to-all", ranks=2, nbytes="40MB", compute_s="10ms")
    assert (job.arrival_s, job.nbytes, job.compute_s) == (5, 40e6, 0.01)
    assert Stage("x", compute_s="1min").compute_s == 60
    with pytest.raises(InputError, match="job 0: nbytes '4XB' has the unknown unit 'XB'"):
        JobSpec(0, pattern="all-to-all", ranks=2, nbytes="4XB")


@pytest.mark.parametrize("name", ["compute_s", "release_s"])
def test_stage_times_are_not_negative(name):
    with pytest.raises(InputError, match=f"stage 'x': {name} must be at least 0, not -1"):
        Stage("x", **{name: -1.0})


@pytest.mark.parametrize(("deadline_s", "message"), [
    (0, "must be greater than 0, not 0"), ("-1s", "must be greater than 0, not '-1s'"),
    (np.inf, "must be finite, not inf"), ("5MB", "'5MB' has the unknown unit 'MB'")])
def test_a_deadline_is_after_the_coflows_validity(deadline_s, message):
    assert Stage("x", deadline_s="200ms").deadline_s == 0.2
    assert Stage("x").deadline_s is None
    with pytest.raises(InputError, match=f"stage 'x': deadline_s {message}"):
        Stage("x", deadline_s=deadline_s)


@pytest.mark.parametrize("weight", [0, True, "1"])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(InputError, match="weight must be a finite number greater than 0, not "
                                         f"{weight!r}"):
        Stage("x", weight=weight)


def test_a_long_chain_is_checked_quickly():
    """Linear in the stages; 20,000 would take minutes if it were quadratic."""
    names = [f"s{k}" for k in range(20_000)]
    stages = [Stage(name, after=tuple(names[max(k - 1, 0):k])) for k, name in enumerate(names)]
    assert len(JobSpec(0, stages=stages, ranks=1).stages) == 20_000


def test_workload_is_ordered_by_arrival_then_id():
    jobs = [JobSpec(3, 1.0, stages=[PUSH]), JobSpec(2, 1.0, stages=[PUSH]),
            JobSpec(9, 0.0, stages=[PUSH])]
    assert [job.id for job in Workload(jobs)] == [9, 2, 3]


def test_a_list_of_names_is_not_a_string():
    with pytest.raises(InputError, match="stage 'x': after must be a list of names, not 'ab'"):
        Stage("x", after="ab")


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_workloads_seed_is_a_whole_number(seed):
    with pytest.raises(InputError, match=f"seed must be a whole number .* not {seed}"):
        Workload([JobSpec(0, stages=[PUSH])], seed=seed)


def test_workload_refused():
    with pytest.raises(InputError, match="has no jobs"):
        Workload([])
    with pytest.raises(InputError, match="jobs must be a list of JobSpec, not JobSpec"):
        Workload(JobSpec(0, stages=[PUSH]))
    with pytest.raises(InputError, match=r"a list of JobSpec, but holds \{'id': 0"):
        Workload([{"id": 0}])
    with pytest.raises(InputError, match="two coflows have the id 4"):
        Workload([JobSpec(job, stages=[Stage("a", coflow_id=4)]) for job in (0, 1)])
    with pytest.raises(InputError, match="two jobs have the id 1"):
        Workload([JobSpec(1, stages=[PUSH]), JobSpec(1, stages=[PUSH])])


@pytest.mark.parametrize("pattern", ["ring-all-reduce", "parameter-server:servers=1",
                                     {"name": "all-to-all", "sizes": "uniform"}])
def test_a_pattern_without_bytes_is_questioned(pattern):
    """Unless 0 says that it is meant; a copy does not ask again."""
    with pytest.warns(NetsimWarning, match=r"a job of 2 ranks has .* and no nbytes") as told:
        job = JobSpec(0, pattern=pattern, ranks=2, compute_s=1)
    assert told[0].filename == __file__
    assert job.nbytes == 0
    assert dataclasses.replace(job, id=1).nbytes == JobSpec(0, pattern=pattern, ranks=2, nbytes=0
                                                            ).nbytes == 0


@pytest.mark.parametrize("keys", [
    {"pattern": "ring-all-reduce", "ranks": 1}, {"pattern": "barrier", "ranks": 2},
    {"pattern": {"name": "all-to-all", "matrix": [[0, 1], [1, 0]]}, "ranks": 2},
    {"pattern": "module:Mine", "ranks": 2}, {"stages": [Stage("a", [(0, 1, 1)])]}])
def test_what_sends_nothing_or_says_itself_what_it_sends_is_not(keys):
    assert JobSpec(0, **keys).nbytes == 0
