"""Workloads made of others: parts, sums, scaled copies, tables."""

from operator import add

import pytest

import netsim
from netsim import InputError, JobSpec, Stage, Workload

NET = netsim.big_switch(4, "8Mbps")

#: Four flows of 1 MB: jobs 0 and 2 at 0 s, 1 and 3 at 1 s.
FLOWS = Workload.from_arrays([0, 1, 2, 3], [1, 2, 3, 0], "1MB", at_s=[0.0, 1.0, 0.0, 1.0])


def explicit():
    """The same as objects."""
    return Workload([JobSpec(k, k % 2, hosts=range(4),
                             stages=[Stage("coflow", [(k, (k + 1) % 4, 1e6)])])
                     for k in range(4)])


KINDS = [FLOWS, explicit()]
IDS = ["columns", "objects"]


def ids(workload):
    return [job.id for job in workload]


@pytest.mark.parametrize("given", KINDS, ids=IDS)
def test_parts(given):
    """Jobs stand in order of (arrival, id)."""
    assert ids(given) == [0, 2, 1, 3]
    assert given[1].id == given[-3].id == 2
    assert ids(given[1:3]) == [2, 1]
    assert ids(given[::-1]) == [0, 2, 1, 3]
    assert ids(given.filter(lambda job: job.id > 1)) == [2, 3]
    assert type(given[:2].jobs) is type(given.jobs)
    assert netsim.simulate(NET, given[2:]).jobs["finish_s"].tolist() == [2, 2]
    for nothing in (lambda: given[4:], lambda: given.filter(lambda job: False)):
        with pytest.raises(InputError, match="workload 'workload': no job is left of 4"):
            nothing()
    with pytest.raises(IndexError):
        given[4]


@pytest.mark.parametrize("given", KINDS, ids=IDS)
def test_sums(given):
    """Ids that clash are renumbered on demand; the sum has all jobs, and the first one's seed."""
    with pytest.raises(InputError, match=r"both have a job 0; ids from 4 on are free"):
        add(given, given)
    both = given + given.renumber(4)
    assert both.name == "workload + workload"
    assert ids(both) == [0, 2, 4, 5, 1, 3, 6, 7]
    assert netsim.simulate(NET, both).jobs["finish_s"].tolist() == [2, 2, 2, 2, 3, 3, 3, 3]
    with pytest.raises(TypeError):
        add(given, [1])
    with pytest.raises(InputError, match="first must be a whole number"):
        given.renumber(-1)


@pytest.mark.parametrize("given", KINDS, ids=IDS)
def test_scaled(given):
    """Twice the bytes at half the times: 2 s each, from 0 and from 0.5 s."""
    jobs = netsim.simulate(NET, given.scale(time=0.5, nbytes=2)).jobs
    assert jobs["arrival_s"].tolist() == [0, 0, 0.5, 0.5]
    assert jobs["finish_s"].tolist() == [2, 2, 2.5, 2.5]
    for name, factor in (("time", -1), ("nbytes", float("inf")), ("compute", "2"), ("time", True)):
        with pytest.raises(InputError, match=f"{name} must be a finite number of at least 0"):
            given.scale(**{name: factor})


def test_scaled_computation_releases_patterns_and_operations():
    """The job computes 2 s before 1 MB, then from its release at 6 s 2 s before 1 MB: ends at 9."""
    stages = [Stage("a", [(0, 1, 2e6)], compute_s=1), Stage("b", [(1, 2, 2e6)], 1, release_s=3)]
    job = JobSpec(0, hosts=range(3), stages=stages)
    ring = JobSpec(1, 5.0, pattern="ring-all-reduce", ranks=2, nbytes=2e6, compute_s=1)
    llm = netsim.llm_job({"layers": 1, "hidden": 64, "ffn": 64, "heads": 4, "vocab": 128,
                          "sequence": 8}, dp=2, global_batch=2, id=2)
    scaled = Workload([job, ring, llm]).scale(time=2, nbytes=0.5, compute=2)
    first = next(each for each in scaled if each.id == job.id and each.stages)
    assert netsim.simulate(NET, [first]).jobs["finish_s"].tolist() == [9]
    other = next(each for each in scaled if each.pattern)
    assert (other.arrival_s, other.nbytes, other.compute_s) == (10, 1e6, 2)
    made = next(each for each in scaled if each.operations)
    assert made.operations.whole.compute_s.sum() == 2 * llm.operations.whole.compute_s.sum()
    sums = [sum(each.flows.nbytes.sum() for each in operations.sendings)
            for operations in (made.operations.whole, llm.operations.whole)]
    assert sums[0] == sums[1] / 2


def test_a_model_is_not_scaled():
    job = JobSpec(3, model=netsim.make_model("vgg19", 1))
    assert Workload([job]).scale(time=2)[0].id == 3
    with pytest.raises(InputError, match="job 3 trains a model, from which its bytes"):
        Workload([job]).scale(nbytes=2)


@pytest.mark.parametrize("given", KINDS, ids=IDS)
def test_a_table_is_read_back(given):
    """The same runs, coflow by coflow."""
    back = Workload.from_frame(given.to_frame())
    one, other = (netsim.simulate(NET, each) for each in (given, back))
    assert one.jobs.equals(other.jobs)
    columns = ["coflow", "job", "valid_s", "finish_s", "bytes"]
    assert one.coflows[columns].equals(other.coflows[columns])


def test_a_job_of_two_coflows_is_read_back():
    """The second starts when the job is 2 s old."""
    stages = [Stage("a", [(0, 1, 1e6), (1, 2, 2e6)], coflow_id=8),
              Stage("b", [(2, 0, 5)], release_s=2)]
    table = Workload([JobSpec(5, 1.5, hosts=[3, 1, 0], stages=stages, name="x")]).to_frame()
    assert table.to_numpy().tolist() == [
        [3, 1, 1e6, 1.5, 8, 5, "x"], [1, 0, 2e6, 1.5, 8, 5, "x"], [0, 3, 5, 3.5, 0, 5, "x"]]


def test_jobs_without_hosts_have_a_table_of_ranks():
    """Read back, they get the same hosts from the seed of the run."""
    ring = [(0, 1, 1e6), (1, 2, 1e6), (2, 0, 1e6)]
    given = Workload([JobSpec(k, k / 2, stages=[Stage("a", ring)]) for k in range(3)])
    table = given.to_frame()
    assert table[["src", "dst", "start_s", "job"]].to_numpy().tolist()[3:5] == [
        [0, 1, 0.5, 1], [1, 2, 0.5, 1]]
    back = Workload.from_frame(table, endpoints="ranks")
    assert {job.hosts for job in back} == {None}
    one, other = (netsim.simulate(NET, each, seed=7, record=["flows"]) for each in (given, back))
    columns = ["src", "dst", "bytes", "valid_s", "finish_s"]
    assert one.flows[columns].equals(other.flows[columns])
    both = given + Workload([JobSpec(9, stages=[Stage("a", ring)], hosts=range(3))])
    with pytest.raises(InputError, match="job 9 has hosts, and job 0 has none: a table has either"):
        both.filter(lambda job: job.id in (0, 9)).to_frame()


@pytest.mark.parametrize(("changes", "reason"), [
    ({"pattern": "all-to-all", "ranks": 2, "nbytes": 5}, "has no explicit stages"),
    ({"stages": [Stage("a", [(0, 1, 5)])], "hosts": [0, 1], "iterations": 2}, "repeats 2 times"),
    ({"stages": [Stage("a", [(0, 1, 5)], compute_s=1)], "hosts": [0, 1]}, "computes"),
    ({"stages": [Stage("a", [(0, 1, 5)]), Stage("b", [(0, 1, 5)], after=["a"])], "hosts": [0, 1]},
     "has stages that wait for others"),
])
def test_what_a_table_cannot_say(changes, reason):
    with pytest.raises(InputError, match=f"job 7 {reason}, which a table of flows"):
        Workload([JobSpec(7, **changes)]).to_frame()
