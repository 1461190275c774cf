"""Workloads from arrays and tables are those of the same jobs as objects."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim.errors import InputError
from netsim.jobs.plan import ecmp_key, ecmp_keys
from netsim.traces import split_history
from netsim.workload import Workload
from netsim.workload.columns import Flows
from netsim.workload.job import JobSpec, Stage

HOSTS = 16
ALL = ["jobs", "coflows", "flows", "links", "decisions"]


def drawn(count=300, seed=1):
    """Flows that start in no order, some at once, some without bytes, some within a host."""
    rng = np.random.default_rng(seed)
    nbytes = np.round(10 ** rng.uniform(3, 6, count)) * (rng.random(count) > 0.05)
    return (rng.integers(0, HOSTS, count), rng.integers(0, HOSTS, count), nbytes,
            np.round(rng.uniform(0, 0.02, count), 3))


def as_objects(src, dst, nbytes, at_s):
    return Workload([
        JobSpec(k, float(at), hosts=range(max(src.max(), dst.max()) + 1),
                stages=[Stage("coflow", [(int(one), int(other), float(size))])])
        for k, (one, other, size, at) in enumerate(zip(src, dst, nbytes, at_s, strict=True))])


def table(**columns):
    return pd.DataFrame({"src": [0, 1, 0, 2], "dst": [2, 2, 1, 1], "nbytes": [1e6, 2e6, 3e6, 4e6],
                         "start_s": [1.0, 1.0, 0.5, 2.0]} | columns)


def as_bytes(result):
    return {name: getattr(result, name).to_csv() for name in ALL}


def assert_same_runs(one, other, network=None, **options):
    network = network or netsim.big_switch(HOSTS, "100Mbps")
    results = [netsim.simulate(network, each, record=ALL, **options) for each in (one, other)]
    assert as_bytes(results[0]) == as_bytes(results[1])
    for name in ("coflows", "flows", "jobs"):
        pd.testing.assert_frame_equal(*(getattr(each, name) for each in results), check_exact=True)
    drop = ("wall_s",)
    runs = [{key: value for key, value in each.run.items() if key not in drop}
            for each in results]
    assert runs[0] == runs[1]


def told(job):
    """What there is to know of a job."""
    return ([getattr(job, name) for name in JobSpec.__slots__ if name != "stages"],
            [[getattr(stage, name) for name in Stage.__slots__ if name != "flows"]
             + list(stage.flows) for stage in job.stages])


@pytest.mark.parametrize("options", [
    *({"allocator": name} for name in (
        "maxmin", "parrot", "sebf", "aalo", "fifo", "srpt", "sincronia")),
    {"allocator": {"name": "maxmin", "decisions": "coflow"}}, {"observe_interval": "10ms"},
    {"until": "15ms"}, {"stragglers": {3: 2.0}}, {"timeline": True},
    {"events": [{"at": "5ms", "link": "egress-3", "capacity": "50Mbps"}]},
    {"events": [{"at": "5ms", "kind": "fail", "host": 3, "restart": True},
                {"at": "9ms", "kind": "repair", "host": 3}]},
], ids=str)
def test_runs_are_those_of_objects(options):
    arrays = drawn()
    assert_same_runs(Workload.from_arrays(*arrays), as_objects(*arrays), **options)


def test_runs_are_those_of_objects_on_many_routes():
    arrays = drawn()
    assert_same_runs(Workload.from_arrays(*arrays), as_objects(*arrays),
                     netsim.fat_tree(4, "100Mbps"))


def test_keys_of_routes_are_those_of_single_jobs():
    rng = np.random.default_rng(0)
    ids = np.concatenate((np.arange(1200), rng.integers(0, 10**15, 300), [10**15]))
    for stage in ("coflow", "", "ünï"):
        assert ecmp_keys(ids, stage).tolist() == [ecmp_key(job, stage) for job in ids.tolist()]


def test_jobs_are_made_when_they_are_asked_for():
    arrays = drawn()
    made, objects = Workload.from_arrays(*arrays), as_objects(*arrays)
    netsim.simulate(netsim.big_switch(HOSTS, "1Gbps"), made, record=ALL)
    assert not made.jobs._made
    assert made.jobs[-1] is made.jobs[len(made) - 1]
    assert (len(made), repr(made)) == (len(objects), repr(objects))
    assert list(map(told, made)) == list(map(told, objects))
    assert list(map(told, made.jobs[5:60:7])) == list(map(told, objects.jobs[5:60:7]))
    assert made.jobs[3] in made.jobs
    assert next(reversed(made.jobs)) is made.jobs[-1]
    with pytest.raises(IndexError):
        made.jobs[len(made)]
    with pytest.raises(ValueError, match="read-only"):
        made.jobs.columns.nbytes[0] = 1


def test_copies_are_columns_too():
    arrays = drawn()
    made = Workload.from_arrays(*arrays, name="mine", seed=3)
    for copy in (pickle.loads(pickle.dumps(made)), replace(made, seed=4)):
        assert copy.name == "mine"
        assert not copy.jobs._made
        assert_same_runs(copy, replace(as_objects(*arrays), name="mine", seed=copy.seed))
    later = split_history(made, 0.5)
    assert [job.id for job in later] == [job.id for job in made.jobs[150:]]


@pytest.mark.parametrize("write", [netsim.write_instance, netsim.write_coflow_benchmark])
def test_files_are_those_of_objects(write, tmp_path):
    src, dst, _, at_s = drawn(50)
    arrays = src, dst, np.full(50, 3e6), np.round(at_s, 3)
    for name, workload in (("one", Workload.from_arrays(*arrays)), ("other", as_objects(*arrays))):
        write(workload, tmp_path / name)
    assert (tmp_path / "one").read_text() == (tmp_path / "other").read_text()


def test_single_values_are_those_of_all_flows():
    workload = Workload.from_arrays(0, [1, 2], "10MB", "1s")
    assert [told(job) for job in workload] == [told(job) for job in Workload.from_arrays(
        [0, 0], [1, 2], [1e7, 1e7], [1, 1])]
    assert len(Workload.from_arrays(0, 1, 5)) == 1
    assert Workload.from_arrays(np.uint8(0), pd.Series([200, 3], dtype="Int64"), np.float32(4)
                                ).jobs[0].ranks == 201


@pytest.mark.parametrize(("args", "message"), [
    (([], [], []), "workload 'workload' has no flows"),
    (([0, 1], [1], [1.0, 2.0, 3.0]), "columns must have one length, but have: src 2, dst 1, nby"),
    (([0, 1], [1, 2], [1.0, -1.0]), "nbytes of row 1 must be bytes from 0 to 1e[+]100, not -1.0"),
    (([0, 1], [1, 2], [1.0, np.nan]), "nbytes of row 1 must be bytes from .*, not nan"),
    (([0, 1], [1, 2], [np.inf, 1.0]), "nbytes of row 0 must be bytes from .*, not inf"),
    (([0, 1], [1, 2], [10**400, 1.0]), "nbytes of row 0 must be bytes from .*, not 1.79"),
    (([0, 1], [1, 2], [1, "2MB"]), "nbytes of row 1 must be a number, not '2MB'; columns hold byt"),
    (([0, 1], [1, 2], "lots"), "nbytes 'lots' is not a number with a unit"),
    (([0, 1], [1, 2], None), "nbytes must be a number or a string such as .*, not None"),
    (([0, 1], [1, 2], [[1, 2]]), r"nbytes must be a list of bytes, not \[\[1, 2\]\]"),
    (([0, 1], [1, 2], [[1], [2, 3]]), "nbytes must be a list of bytes"),
    (([0, -3], [1, 2], 1), "src of row 1 must be a whole number from 0 to 10,000,000, not -3"),
    (([0, 3], [1, 2.5], 1), "dst of row 1 must be a whole number from .*, not 2.5"),
    (([0, 3], [1, np.nan], 1), "dst of row 1 must be a whole number from .*, not nan"),
    (([0, 2**63], [1, 2], 1), "src of row 1 must be a whole number from .*, not 9.22"),
    (([True, False], [1, 2], 1), "src of row 0 must be a number, not True"),
    ((["a", -1], [1, 2], 1), "src of row 1 must be a name, or a whole number from 0 to .*, not -1"),
    (("a", [1, 2.5], 1), "dst of row 1 must be a name, or a whole number from 0 to .*, not 2.5"),
    ((0.5, [1, 2], 1), "src must be a whole number from 0 to 10,000,000, not 0.5"),
    (([0, 1], [1, 2], 1, [0.0, -1.0]), "at_s of row 1 must be seconds from 0 to .*, not -1.0"),
    (([0, 1], [1, 2], 1, np.array([0, 1], "m8[s]")), "at_s of row 0 must be a number, not"),
    (([0, 1], [1, 2], 1, -1), "at_s must be at least 0, not -1"),
    (([0, 1], [1, 2], {"a": 1}), "nbytes"),
])
def test_arrays_refused(args, message):
    with pytest.raises(InputError, match=message):
        Workload.from_arrays(*args)


def test_hosts_that_the_network_has_not():
    flows = Workload.from_arrays([0, 5], [1, 2], 1)
    with pytest.raises(InputError, match=r"job 1: host 5 is out of range; network .* has 4 hosts"):
        netsim.simulate(netsim.big_switch(4, "1Gbps"), flows)


@pytest.mark.parametrize("labels", [[7, 7, 3, 12], ["a", "a", "b", "c"]])
def test_coflows_of_a_table_are_jobs(labels):
    workload = Workload.from_frame(table(label=labels), coflow="label")
    numbers = {"a": 0, "b": 1, "c": 2}
    whole = isinstance(labels[0], int)
    objects = Workload([
        JobSpec(label if whole else numbers[label], start, hosts=range(3),
                name="" if whole else label, stages=[
                    Stage("coflow", Flows(*flows), coflow_id=label if whole else None)])
        for label, start, flows in ((labels[0], 1.0, ([0, 1], [2, 2], [1e6, 2e6])),
                                    (labels[2], 0.5, ([0], [1], [3e6])),
                                    (labels[3], 2.0, ([2], [1], [4e6])))])
    assert list(map(told, workload)) == list(map(told, objects))
    assert_same_runs(workload, objects)


def test_jobs_of_several_coflows():
    workload = Workload.from_frame(table(coflow=[7, 7, 3, 12], job=["x", "x", "x", "y"]),
                                   coflow="coflow", job="job")
    first, second = workload
    assert (first.id, first.name, first.arrival_s) == (0, "x", 0.5)
    assert [(stage.name, stage.coflow_id, stage.release_s, len(stage.flows))
            for stage in first.stages] == [("7", 7, 0.5, 2), ("3", 3, 0.0, 1)]
    assert (second.id, second.name, second.arrival_s) == (1, "y", 2.0)
    coflows = netsim.simulate(netsim.big_switch(3, "8Mbps"), workload).coflows
    assert dict(zip(coflows["coflow"], coflows["valid_s"], strict=True)) == {
        3: 0.5, 7: 1.0, 12: 2.0}


def test_rows_of_a_job_are_coflows():
    workload = Workload.from_frame(table(job=[4, 4, 4, 2]).rename(columns={"nbytes": "bytes"}),
                                   job="job", start=None, name="mine", seed=5)
    assert [(job.id, len(job.stages), job.arrival_s) for job in workload] == [(2, 1, 0), (4, 3, 0)]
    assert (workload.name, workload.seed) == ("mine", 5)


def test_columns_of_usual_names_are_used():
    """As by the format of files of flows; other columns can be named instead."""
    frame = table(coflow=[7, 7, 3, 12], job=["x", "x", "x", "y"], other=[1, 1, 2, 3])
    named = Workload.from_frame(frame, coflow="coflow", job="job")
    assert list(map(told, Workload.from_frame(frame))) == list(map(told, named))
    assert [job.stages[0].coflow_id for job in Workload.from_frame(frame, coflow="other")] == [1, 3]
    each = Workload.from_frame(frame.drop(columns=["coflow", "job"]))
    assert len(each) == 4


def test_a_table_without_labels_is_arrays():
    frame = table().set_index(pd.Index([9, 8, 7, 6]))
    workload = Workload.from_frame(frame)
    arrays = Workload.from_arrays(frame["src"], frame["dst"], frame["nbytes"], frame["start_s"])
    assert list(map(told, workload)) == list(map(told, arrays))
    flows = netsim.simulate(netsim.big_switch(3, "8Mbps"), workload, record=ALL).flows
    again = Workload.from_frame(flows, start="valid_s", coflow="coflow", job="job")
    assert [(job.id, job.arrival_s) for job in again] == [(2, 0.5), (0, 1.0), (1, 1.0), (3, 2.0)]


@pytest.mark.parametrize(("columns", "options", "message"), [
    ({}, {"src": "from"}, "there is no column 'from' for src; choose from: 'src', 'dst', 'n"),
    ({}, {"coflow": "c"}, "there is no column 'c' for coflow"),
    ({}, {"start": "at"}, "there is no column 'at' for start"),
    ({"nbytes": [1, 2, 3, -4]}, {}, "nbytes of row 3 must be bytes from 0 to .*, not -4"),
    ({"c": [7, 7, 7, 12]}, {"coflow": "c"},
     r"coflow 7 has two starts, 1.0 s in row 0 and 0.5 s in row 2; its flows must have the same. .*"
     r": table\['start_s'\] = table.groupby\('c'\)\['start_s'\].transform\('min'\)$"),
    ({"c": [7, 7, 3, 12], "j": ["x", "y", "x", "y"]}, {"coflow": "c", "job": "j"},
     "coflow 7 is of two jobs, 'x' in row 0 and 'y' in row 1"),
    ({"c": [7, 7, None, 12]}, {"coflow": "c"}, "c of row 2 is missing"),
    ({"c": [7, 7, -3, 12]}, {"coflow": "c"}, "c must be texts, or whole numbers from 0 .*, not -3"),
    ({"c": [7, 7, 0.5, 12]}, {"coflow": "c"}, "c must be texts, or whole numbers .*, not 0.5"),
    ({}, {"endpoints": "servers"}, "unknown endpoints 'servers'; choose from: hosts, names"),
    ({"src": [0, "a", 0, 2]}, {"endpoints": "ranks"},
     "src of row 1 must be a number, not 'a'; columns hold numbers of ranks without units"),
    ({"dst": [2, 2, -1, 1]}, {"endpoints": "ranks"}, "dst of row 2 must be a whole number .*-1"),
])
def test_tables_refused(columns, options, message):
    with pytest.raises(InputError, match=message):
        Workload.from_frame(table(**columns), **options)


def test_tables_are_data_frames():
    with pytest.raises(InputError, match=r"must be made of a pandas\.DataFrame, not {'src': "):
        Workload.from_frame({"src": [0]})
    with pytest.raises(InputError, match="has no flows"):
        Workload.from_frame(table().iloc[:0])
    with pytest.raises(InputError, match="two columns are named 'src'"):
        Workload.from_frame(pd.concat([table(), table()[["src"]]], axis=1))


def test_a_table_of_ranks_leaves_hosts_to_the_run():
    """Jobs of one coflow and of several have no hosts; each seed of a run places them on others."""
    frame = table(coflow=[7, 7, 3, 12], job=["x", "x", "x", "y"])
    first, second = Workload.from_frame(frame, endpoints="ranks")
    assert (first.hosts, first.ranks, [stage.name for stage in first.stages]) == (
        None, 3, ["7", "3"])
    assert (second.hosts, second.ranks, second.arrival_s) == (None, 3, 2.0)
    each = Workload.from_frame(frame, coflow="coflow", job="coflow", endpoints="ranks")
    assert [(job.id, job.hosts, len(job.stages)) for job in each] == [
        (3, None, 1), (7, None, 1), (12, None, 1)]
    hosts = [netsim.simulate(netsim.big_switch(9, "8Mbps"), each, record=ALL, seed=seed).flows
             for seed in range(3)]
    assert len({tuple(flows["src"]) for flows in hosts}) == 3


def test_a_scheduler_places_the_ranks_of_a_table():
    """Two GPUs in each of two servers: the job of four ranks waits for the one of two."""
    frame = pd.DataFrame({"src": [0, 0], "dst": [1, 3], "bytes": 1e6, "job": [0, 1]})
    workload = Workload.from_frame(frame, start=None, endpoints="ranks")
    done = netsim.simulate(netsim.Cluster(2, 2, "8Mbps"), workload, scheduler="fifo",
                           placement="consolidated", execution="fabric").jobs
    assert done["gpus"].tolist() == [2, 4]
    assert done["queue_s"].tolist() == [0, done["finish_s"][0]]


@pytest.mark.parametrize("hosts", [{}, {"src": ["a"], "dst": ["b"]}])
def test_hosts_of_a_table_are_not_ranks_on_a_cluster(hosts):
    """Host 3 would be the fourth GPU of a job that needs two; names could only be ignored."""
    frame = pd.DataFrame({"src": [3], "dst": [0], "bytes": 1e6, **hosts})
    workload = Workload.from_frame(frame, start=None)
    with pytest.raises(InputError, match=r'job 0 sends flows between hosts .* = "ranks"'):
        netsim.simulate(netsim.Cluster(2, 2, "8Mbps"), workload, execution="fabric")
