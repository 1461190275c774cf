"""The same results everywhere: on any Python and machine, in one process or two, recorded or not.

On one machine they are the same to the last bit, and compared so. Another processor adds in another
order, and another NumPy may round a logarithm otherwise: the digests stored here are of tables
with nine significant digits, of runs too short for such differences to grow.
"""

from __future__ import annotations

import csv
import hashlib
import io
import sys
from collections.abc import Collection, Mapping
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim.studies.executors import one_by_one, pooled
from netsim.studies.run_store import Files, packed
from netsim.studies.tasks import ExperimentTask
from tests.pairs import exhaustive

ALL = ["jobs", "coflows", "flows", "decisions"]
TRACE = {"format": "synthetic", "jobs": 12, "iterations": 2, "arrival_scale": 0.02,
         "length": "100MB"}

EXPERIMENTS: dict[str, dict[str, Any]] = {
    "parrot": {"network": {"kind": "big-switch", "hosts": 40}, "workload": TRACE, "seed": 1,
               "allocator": "parrot", "observe_interval": "10ms", "record": ALL},
    "aalo": {"network": {"kind": "leaf-spine", "leaves": 4, "spines": 2, "hosts_per_leaf": 8,
                         "oversubscription": 4}, "workload": TRACE, "allocator": "aalo",
             "seed": 2, "record": ALL},
    "a-srpt": {"cluster": {"servers": 6, "gpus": 8}, "execution": "asrpt", "seed": 3,
               "workload": {"format": "recurrent", "jobs": 60, "train": 0.5, "max_gpus": 16},
               "scheduler": {"name": "a-srpt", "predictor": "mean", "tau": 1.0}},
    "sjf-bco": {"cluster": {"servers": 4, "draw_gpus": [4, 8]}, "scheduler": "sjf-bco", "seed": 4,
                "workload": {"format": "ring-jobs", "mix": {"1": 6, "2": 3, "4": 3, "6": 2},
                             "iterations": [20, 60]},
                "execution": {"name": "rar-contention", "xi1": 0.5, "xi2": 1e-4,
                              "time": "continuous"}},
    "edge": {"edge_cloud": {"kind": "edge-servers", "servers": 4, "types": 2}, "seed": 5,
             "workload": {"format": "edge-jobs", "jobs": 12, "span": "60h", "chunks": [3, 9]},
             "scheduler": "a-online", "record": ["jobs", "chunks"]},
    "fabric": {"network": {"kind": "torus", "shape": [3, 3]}, "cluster": {"gpus": 2}, "seed": 6,
               "workload": {"format": "ring-jobs", "mix": {"2": 3, "4": 3, "6": 2},
                            "iterations": [2, 5], "length": "50MB"},
               "scheduler": "fifo", "execution": "fabric", "allocator": "sebf", "record": ALL},
}

DIGESTS = {
    "parrot": "a2b4e02df6b5fa8f12b730c233b5ffcc5f3e33f453f6224d3b00a4034540331f",
    "aalo": "4e69447981ccff44a6c133403624bb73ffc5f5abcdac2ff20f90294d5477741c",
    "a-srpt": "9cc6d3defdbc01e08d86170129faa2edbfd336d4cbe3cad82fda71757f6bd85d",
    "sjf-bco": "7e42646604d963df77800d14ace308d2c8ff42e9af6d36b0ca9e782ab889a653",
    "edge": "f44ba0930f096449dc788c43258e218b7211bab3514111d1aad9d6ece6fef3aa",
    "fabric": "51a2803ad43bde677a3d3f37db9ec6e592c2d7004f732bd08766376fceab0c7d",
    "equal paths": "0c8179fd77853bc8fc359b13405befbe3e206dba69a21cb6d6c2f6f212beb87f",
}


@pytest.fixture(scope="module")
def tasks() -> list[ExperimentTask]:
    """Return all experiments, as a sweep sends them to its workers."""
    return made()


def made() -> list[ExperimentTask]:
    return [ExperimentTask(netsim.Experiment(name=name, **keys).resolved())
            for name, keys in EXPERIMENTS.items()]


@pytest.fixture(scope="module")
def here(tasks: list[ExperimentTask]) -> dict[str, Files]:
    """Return the files of all experiments, run one after the other in this process."""
    outcomes = dict(one_by_one(tasks))
    return {name: tables(outcomes[k]) for k, name in enumerate(EXPERIMENTS)}


def tables(outcome: Any) -> Files:
    """Return the tables among the files of a run."""
    assert isinstance(outcome, dict), outcome
    return {name: data for name, data in outcome.items() if name.endswith(".csv")}


def digest(files: Mapping[str, bytes], without: Collection[str] = ()) -> str:
    """Return that of the tables of jobs, coflows and chunks, rounded, without some columns."""
    found = hashlib.sha256()
    for name in ("jobs.csv", "coflows.csv", "chunks.csv"):
        if name in files:
            head, *rows = csv.reader(io.StringIO(files[name].decode()))
            kept = [k for k, column in enumerate(head) if column not in without]
            for row in (head, *rows):
                found.update(",".join(rounded(row[k]) for k in kept).encode() + b"\n")
    return found.hexdigest()


def rounded(cell: str) -> str:
    """Return a number with nine significant digits, or a text as it is."""
    try:
        return f"{float(cell):.9g}"
    except ValueError:
        return cell


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_are_those_that_are_stored(here: dict[str, Files], name: str) -> None:
    assert digest(here[name]) == DIGESTS[name]


@exhaustive
def test_two_processes_give_the_same_bytes(tasks: list[ExperimentTask],
                                           here: dict[str, Files]) -> None:
    outcomes = dict(pooled(tasks, 2))
    assert {name: tables(outcomes[k]) for k, name in enumerate(EXPERIMENTS)} == here


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_recording_changes_no_job(here: dict[str, Files], name: str) -> None:
    alone = netsim.Experiment(**EXPERIMENTS[name] | {"name": name, "record": ["jobs"]})
    assert packed(netsim.run(alone))["jobs.csv"] == here[name]["jobs.csv"]


@pytest.mark.parametrize("name", ["parrot", "aalo", "fabric"])
def test_recording_links_changes_nothing(here: dict[str, Files], name: str) -> None:
    """Not even a rounding."""
    linked = netsim.Experiment(**EXPERIMENTS[name] | {"name": name, "record": ["coflows", "links"]})
    files = packed(netsim.run(linked))
    assert [files[table] for table in ("jobs.csv", "coflows.csv")] == [
        here[name][table] for table in ("jobs.csv", "coflows.csv")]


def equal_paths(**options: Any) -> Files:
    """Return the files of a run on a network of many equal paths."""
    graph = nx.circulant_graph(10, [1, 3])
    for node in [*graph]:
        graph.add_edge(f"host-{node}", node)
        graph.nodes[f"host-{node}"]["host"] = True
    network = netsim.from_networkx(graph, capacity="10Gbps")
    jobs = [netsim.JobSpec(k, arrival_s=0.01 * k, pattern="all-to-all", ranks=4, nbytes=1e8,
                           iterations=2) for k in range(6)]
    return packed(netsim.simulate(network, jobs, allocator="sincronia", seed=8, **options))


def test_a_network_of_many_equal_paths() -> None:
    """The hash that chooses among them is the same on all platforms."""
    files = equal_paths()
    assert digest(files) == DIGESTS["equal paths"]
    assert equal_paths(record=ALL, timeline=True)["jobs.csv"] == files["jobs.csv"]


def main(columns: Collection[str]) -> None:
    """Print the digests anew after columns were added, and whether anything else has changed."""
    outcomes = dict(one_by_one(made()))
    files = {name: tables(outcomes[k]) for k, name in enumerate(EXPERIMENTS)}
    for name, own in (files | {"equal paths": equal_paths()}).items():
        else_changed = "" if digest(own, columns) == DIGESTS[name] else "  # more has changed"
        print(f'    "{name}": "{digest(own)}",{else_changed}')


if __name__ == "__main__":
    main(sys.argv[1:])
