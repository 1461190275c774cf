"""Values of a wrong type, in files and calls: each is refused with what was allowed."""

import datetime
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim.errors import InputError, NetsimError, TraceError, UnknownNameError
from netsim.experiment_file.load import load_experiment
from netsim.jobs.patterns.collective import AllToAll, SendRecv
from netsim.testing import make_view
from tests.offenders import check_each

#: As a TOML file has them.
VALUES = ["[1]", '["json"]', "{a = 1}", "3", "1.5", "true", "2020-01-01", '""', '"a\\u001bb"']

PYTHON = [[1], {"a": 1}, 3, 1.5, True, None, object(), b"x", ("a",), {"json"}, len,
          np.int64(3), np.timedelta64(5, "s"), datetime.timedelta(seconds=5)]

FILES = {
    "network": (netsim.read_network, 'kind = "graph"\nfile = "g.gml"\nname = "n"\n'),
    "edge-cloud": (netsim.read_edge_cloud, 'kind = "edge-servers"\nname = "n"\nservers = 2\n'),
    "edge-jobs": (netsim.read_edge_jobs, 'format = "edge-jobs"\nname = "n"\njobs = 2\n'),
    "workload": (netsim.read_workload, 'format = "json"\nfile = "i.json"\nname = "n"\n'),
}


def graph():
    made = nx.DiGraph()
    made.add_edge("a", "b", capacity=1e6)
    made.add_edge("b", "a", capacity=1e6)
    return made


NET, JOBS = netsim.big_switch(4, 1e6), [netsim.JobSpec(0, hosts=[0, 1], stages=[
    netsim.Stage("s", [(0, 1, 1e6)])])]

#: Calls that take a list in order, by the argument that is a set here.
SETS = {
    "hosts": [
        lambda: netsim.JobSpec(0, hosts={"x", "y"}, stages=[netsim.Stage("s", [(0, 1, 1.0)])]),
        lambda: netsim.JobSpec(0, hosts=frozenset({3, 1}), ranks=2, pattern="ring-all-reduce",
                               nbytes=1.0),
        lambda: netsim.from_networkx(graph(), hosts={"a", "b"}),
        lambda: netsim.llm_job("llama-7b", pp=2, hosts={0, 1}),
        lambda: netsim.read_workload(format="llm", model="llama-7b", pp=2, hosts={0, 1}),
        lambda: netsim.collective_times("all-reduce", NET, 2, "1MB", hosts={0, 1}),
        lambda: NET.host_numbers({0, 1})],
    "paths": [
        lambda: netsim.from_networkx(graph(), hosts=["a", "b"], paths={("a", "b"), ("b", "a")}),
        lambda: netsim.from_networkx(graph(), hosts=["a", "b"],
                                     paths={("a", "b"): {("a", "b")}})],
    "stages": [lambda: netsim.JobSpec(0, hosts=[0, 1], stages={netsim.Stage("s", [(0, 1, 1.0)])})],
    "jobs": [lambda: netsim.Workload(set(JOBS))],
    "flows": [lambda: netsim.Stage("s", {(0, 1, 1.0), (1, 0, 2.0)})],
    "flows: entry 1": [lambda: netsim.Stage("s", [(0, 1, 1.0), {1, 0, 2.0}])],
    "src": [lambda: netsim.Workload.from_arrays({"a", "b"}, ["c", "d"], 1.0)],
    "matrix: entry 0": [lambda: AllToAll(matrix=[{"1MB", "2MB"}, {"3MB", "4MB"}])],
    "pairs: entry 1": [lambda: SendRecv(pairs=[[0, 1], {2, 1}])],
    "allocator": [lambda: netsim.sweep(NET, JOBS, allocator={"sebf", "fifo"})],
    "allocators": [lambda: netsim.compare(NET, JOBS, {"sebf", "fifo"})],
    "observe_interval": [lambda: netsim.sweep(NET, JOBS, observe_interval={0.0, 1.0})],
    "seeds": [lambda: netsim.sweep(NET, JOBS, seed={1, 2})],
    "thresholds": [lambda: netsim.make_allocator({"name": "aalo", "thresholds": {1e6, 2e6}})],
    "weights": [lambda: netsim.make_allocator({"name": "aalo", "queues": 2, "weights": {2, 1}})],
    "order": [lambda: netsim.PriorityService({1, 0})],
    "ingress capacity": [lambda: netsim.big_switch(2, ingress={1e6, 2e6})],
    "shape": [lambda: netsim.torus({2, 3})],
    "sizes": [lambda: netsim.collective_times("all-reduce", NET, sizes={"1MB", "2MB"})],
    "events": [lambda: netsim.simulate(NET, JOBS, events={
        netsim.FaultEvent(1, link=0, capacity=1e6)})],
    "coflows": [lambda: make_view(NET, {((0, 1, 1.0),), ((1, 2, 1.0),)})],
}


def test_sets_where_order_means_something():
    """They have another order in each run of Python, and so would the results."""
    def refused(given):
        what, call = given
        said = (f"{what} must not be a set, .*: a set has no order; give "
                r"a list, such as sorted\(\.\.\.\)")
        with pytest.raises(InputError, match=said):
            call()

    check_each(refused, [(what, call) for what, calls in SETS.items() for call in calls],
               lambda given: f"{given[0]} {SETS[given[0]].index(given[1])}")


def test_sets_where_order_means_nothing():
    assert netsim.simulate(NET, JOBS, record={"flows", "links"}).flows is not None
    stage = netsim.Stage("z", [(0, 1, 1.0)], after={"x", "a"}, ranks=frozenset({1, 0}))
    assert (stage.after, stage.ranks) == (("a", "x"), (0, 1))


def test_sets_in_files(tmp_path):
    nx.write_gml(graph(), tmp_path / "g.gml")
    with pytest.raises(InputError, match="hosts must not be a set"):
        netsim.read_network(tmp_path / "g.gml", hosts={"a", "b"})


def set_to(text, key, value):
    """A file with another value at a key, as a line or as a table."""
    return "\n".join(f"{key} = {value}" if line.startswith(f"{key} =") else line
                     for line in text.splitlines())


def wrong_lines():
    """Yield a kind of file, one of its keys and a value that is refused there.

    A string may be anything as a name; all else that is no string is refused.
    """
    for what, (_, text) in FILES.items():
        for key in (line.partition(" ")[0] for line in text.splitlines()):
            free = key in ("name", "jobs", "servers")
            yield from ((what, key, value) for value in VALUES
                        if not (free and (value.startswith('"') or value == "3")))


def test_in_files(tmp_path):
    def refused(given):
        what, key, value = given
        read, text = FILES[what]
        (tmp_path / "f.toml").write_text(set_to(text, key, value))
        with pytest.raises(NetsimError,
                           match=r"f\.toml|g\.gml|must be|unknown|a folder|no such file"):
            read(tmp_path / "f.toml")

    check_each(refused, wrong_lines())


@pytest.mark.parametrize(("what", "table"), [
    ("network", "[kind]\nhosts = 3\n"), ("network", "[[kind]]\nhosts = 3\n"),
    ("edge-cloud", "[kind]\nservers = 3\n"), ("edge-jobs", "[format]\njobs = 3\n"),
    ("edge-jobs", "[[format]]\njobs = 3\n"), ("workload", "[format]\njobs = 3\n")])
def test_a_kind_or_format_that_is_a_table(tmp_path, what, table):
    read, _ = FILES[what]
    (tmp_path / "f.toml").write_text(table)
    with pytest.raises(InputError, match=r"hosts|servers|jobs"):
        read(tmp_path / "f.toml")


def test_in_experiments(tmp_path):
    def refused(given):
        table, key, value = given
        others = {"network", "workload"} - {table}
        (tmp_path / "e.toml").write_text(f"[{table}]\n{key} = {value}\n" + "".join(
            f'[{other}]\nname = "parrot-fig2"\n' for other in sorted(others)))
        with pytest.raises(NetsimError, match=r"e\.toml"):
            load_experiment(tmp_path / "e.toml")

    check_each(refused, product(["network", "workload", "edge_cloud", "cluster"],
                                ["kind", "format", "file", "name"], ["[1]", "{a = 1}", "true"]))


def test_in_calls():
    check_each(refused_in_calls, PYTHON)


def refused_in_calls(value):
    for read, key in ((netsim.read_network, "kind"), (netsim.read_edge_cloud, "kind"),
                      (netsim.read_workload, "format"), (netsim.read_edge_jobs, "format")):
        with pytest.raises(InputError):
            read(value)
        if value is not None:
            with pytest.raises(InputError):
                read("parrot-fig2", **{key: value})
        with pytest.raises(InputError):
            read("no such", **{key: value})


def test_names_are_strings():
    """Of ready-made and described things the name may be left out, which is None."""
    check_each(refused_as_a_name, PYTHON)


def refused_as_a_name(value):
    stage = netsim.Stage("s", [(0, 1, 1.0)])
    for make in (lambda name: netsim.big_switch(2, name=name),
                 lambda name: netsim.leaf_spine(2, 2, 2, name=name or 0),
                 lambda name: netsim.Cluster(2, name=name),
                 lambda name: netsim.EdgeCloud([["gpu"]], name=name),
                 lambda name: netsim.EdgeWorkload([netsim.EdgeJob(id=0, compute_s=1)], name),
                 lambda name: netsim.Workload([netsim.JobSpec(0, stages=[stage])], name),
                 lambda name: netsim.ParallelModel([netsim.ModelStage(2)], name=name),
                 lambda name: netsim.read_network("parrot-fig2", name=name)):
        with pytest.raises(InputError, match="name must be a string, not"):
            make(value)


def test_a_network_read_has_the_kind_that_it_has(tmp_path):
    for source in ("parrot-fig2", _file(tmp_path)):
        for kind in ("ring", "big-switch"):
            with pytest.raises(InputError, match=r"kind cannot be changed .* is a 'big-switch'"
                               ) as caught:
                netsim.read_network(source, kind=kind)
            assert not isinstance(caught.value, TraceError)


def _file(folder: Path) -> Path:
    (folder / "n.toml").write_text('kind = "big-switch"\nhosts = 3\n')
    return folder / "n.toml"


@pytest.mark.parametrize("format", [["json"], {"json": 1}])
def test_a_format_is_looked_up_by_its_name(format):
    with pytest.raises(UnknownNameError, match="unknown workload format"):
        netsim.read_workload(format=format)


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), [np.int64(3)], np.array([3])])
def test_a_sweep_takes_numpys_seeds(seed):
    swept = netsim.sweep("parrot-fig2", "parrot-fig2", seed=seed)
    assert swept.table["seed"].tolist() == [3]


@pytest.mark.parametrize("seed", [1.5, None, "3", np.timedelta64(3, "s"), [None],
                                  [1.0], b"x", {}])
def test_a_sweep_refuses_what_is_no_seed(seed):
    with pytest.raises(InputError, match="seeds"):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=seed)
