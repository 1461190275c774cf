"""What an object looks like where it is shown: never more than a screen of it."""

import math

import networkx
import numpy as np
import pandas
import simpy

import netsim
from netsim.cluster.contention import Contention
from netsim.cluster.context import RunContext
from netsim.cluster.ring import RingLayout
from netsim.testing import make_view
from netsim.traces.cluster.jobs import ClusterJobs
from tests.offenders import assert_none

MANY = 900

FLOWS = [(0, 1, 1e6 + number) for number in range(MANY)]
JOBS = [netsim.JobSpec(number, pattern="ring-all-reduce", ranks=4, nbytes=1e6)
        for number in range(MANY)]
STAGES = [netsim.Stage(f"a-stage-with-a-long-name-{number}", FLOWS[:3],
                       after=[f"a-stage-with-a-long-name-{other}" for other in range(number)])
          for number in range(60)]


def model():
    layers = [netsim.ModelStage(2, 0.1, 0.2, out_bytes=1e6, in_bytes=1e6, param_bytes=1e7)
              for _ in range(100)]
    return netsim.ParallelModel(layers, name="deep")


def experiment(**keys):
    return netsim.Experiment(**{"network": {"name": "parrot-fig2"}, "name": "study",
                                "workload": {"name": "parrot-fig2"}, "allocator": "parrot"} | keys)


def compared():
    result = netsim.simulate("parrot-fig2", "parrot-fig2")
    return netsim.Comparison({f"an allocator with a long name {number}": result
                              for number in range(MANY)})


def edge_jobs():
    return netsim.draw_edge_jobs(200, servers=MANY)


def swept():
    return netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"])


LARGE = {
    "Allocation": lambda: netsim.Allocation(np.arange(float(MANY))),
    "BigSwitch": lambda: netsim.big_switch(MANY),
    "Calibration": lambda: netsim.Calibration(
        {"kind": "big-switch"}, *[pandas.DataFrame({"a": range(MANY)})] * 2, {}),
    "Cluster": lambda: netsim.Cluster(gpus=[8] * MANY),
    "Comparison": compared,
    "EdgeCloud": netsim.draw_edge_cloud,
    "EdgeJob": lambda: edge_jobs().jobs[0],
    "EdgeWorkload": edge_jobs,
    "Event": lambda: ~netsim.Event(0),
    "Experiment": lambda: experiment(events=[
        {"at": number, "link": "egress-0", "capacity": 1e6} for number in range(MANY)]),
    "FabricView": lambda: make_view(netsim.big_switch(2), [FLOWS]),
    "FaultEvent": lambda: netsim.FaultEvent("1s", link="egress-3", capacity="1Gbps"),
    "Flow": lambda: netsim.Flow(0, 1, 1e6),
    "Flows": lambda: netsim.Stage("all", FLOWS).flows,
    "History": lambda: netsim.History(*[np.arange(1, MANY)] * 3),
    "JobSpec": lambda: netsim.JobSpec(0, stages=STAGES, hosts=range(MANY)),
    "LPBound": lambda: netsim.LPBound(1.0, 2.0),
    "LowerBounds": lambda: netsim.lower_bounds(netsim.big_switch(128),
                                               netsim.read_workload("parrot-60")),
    "Fabric": lambda: netsim.Fabric(simpy.Environment(), netsim.big_switch(MANY)),
    "ModelStage": lambda: model().stages[0],
    "ParallelModel": model,
    "Points": lambda: netsim.Points(30),
    "Range": lambda: netsim.Range("1ms", "1s", log=True),
    "Result": lambda: netsim.simulate("parrot-fig2", "parrot-fig2"),
    "RunEvent": lambda: netsim.RunEvent("job-done", 1.0, 3),
    "Simulation": lambda: netsim.Simulation("parrot-fig2", "parrot-fig2"),
    "Stage": lambda: netsim.Stage("all", FLOWS, after=[str(number) for number in range(MANY)]),
    "Sweep": swept,
    "Topology": lambda: netsim.from_networkx(networkx.path_graph(MANY), capacity=1e6),
    "Workload": lambda: netsim.Workload(JOBS, name="many"),
}

#: Those that are made by a user's class, or only described.
ABSTRACT = {"Allocator", "Pattern", "PriorityService"}

FURTHER_IN = {
    "RunContext": lambda: RunContext(netsim.Cluster(gpus=[8] * MANY), JOBS, Contention()),
    "RingLayout": lambda: RingLayout((0, gpu) for gpu in range(MANY)),
    "ClusterJobs": lambda: ClusterJobs(*[np.arange(60)] * 5, read=60, dropped={}, notes={}),
}


def lines_of(text):
    """How many lines of 80 columns a text takes."""
    return sum(max(1, math.ceil(len(line) / 80)) for line in text.splitlines())


def test_all_public_classes_are_here():
    public = {name for name in netsim.__all__ if isinstance(getattr(netsim, name), type)
              and not issubclass(getattr(netsim, name), BaseException)}
    assert public == LARGE.keys() | ABSTRACT


def test_a_repr_is_at_most_a_screen():
    """24 lines, so that what was said before it can still be seen."""
    shown = {name: repr(make()) for name, make in (LARGE | FURTHER_IN).items()}
    assert_none(f"{name}: {text[:2000]}" for name, text in shown.items() if lines_of(text) > 20)


def test_names_are_escaped():
    """A notebook or a terminal that shows a result is not told what to do by its names."""
    evil = "\x1b]0;title\x07"
    jobs = netsim.Workload([netsim.JobSpec(0, stages=[netsim.Stage("only", FLOWS[:1])])], name=evil)
    network = netsim.big_switch(2, name=evil)
    result = netsim.simulate(network, jobs)
    for thing in (jobs, network, result, netsim.Comparison({evil: result})):
        assert repr(thing).isprintable()


def test_a_repr_says_what_it_is_of():
    assert repr(netsim.Workload(JOBS, name="many", seed=3)) == "<Workload 'many': 900 jobs>"
    assert repr(edge_jobs()) == "<EdgeWorkload 'edge-jobs': 200 jobs>"
    assert repr(netsim.Stage("c", [(0, 1, 2e6)]).flows) == (
        "Flows(src=array([0]), dst=array([1]), nbytes=array([2000000.0]), ranks=2)")
    assert repr(experiment()) == str(experiment()) == (
        "<Experiment 'study': parrot on 'parrot-fig2', workload 'parrot-fig2'>")
    assert repr(experiment(network={"kind": "big-switch", "hosts": 40},
                           workload={"format": "synthetic"})) == (
        "<Experiment 'study': parrot on 'big-switch', workload 'synthetic'>")
    assert "id=0, arrival_s=0.0, iterations=1, stages=(Stage(" in repr(
        netsim.JobSpec(0, stages=STAGES))
