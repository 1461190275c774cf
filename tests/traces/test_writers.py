"""What is written reads back as it was; what a format cannot say is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError, OutputError, UnknownNameError
from netsim.studies.convert import convert as convert_drawn
from netsim.studies.convert import explicit
from netsim.traces import (
    convert,
    read_coflow_benchmark,
    read_instances,
    read_workload,
    write_coflow_benchmark,
    write_instance,
)
from netsim.workload import Workload
from netsim.workload.job import JobSpec, Stage

WRITERS = (write_instance, write_coflow_benchmark)
FLOW = (0, 1, 5.0)


def everything(workload: Workload) -> list[tuple[Any, ...]]:
    """Return all fields of all jobs, and the workload's name."""
    return [(workload.name, workload.seed)] + [
        (job.id, job.arrival_s, job.iterations, job.pattern, job.ranks, job.nbytes, job.compute_s,
         job.redraw, job.hosts, job.name,
         [(stage.name, None if stage.flows is None else [tuple(flow) for flow in stage.flows],
           stage.compute_s, stage.after, stage.finishes_before, stage.release_s, stage.weight,
           stage.coflow_id, stage.deadline_s, stage.overhead_s,
           [(flows.tolist(), times) for flows, times in stage.steps],
           stage.ranks, stage.stream, stage.after_previous)
          for stage in job.stages]) for job in workload]


NUMBERS = st.floats(0, 1e15)
DEADLINES = st.none() | st.floats(1e-18, 1e18)
OVERHEADS = st.none() | NUMBERS
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
FLOWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 1e18)), max_size=4)


def placed(job_id: int, arrival_s: float, stages: list[Stage], **keys: Any) -> JobSpec:
    """Return a job as the JSON reader makes it: rank k on host k, no more than are needed."""
    ranks = max([stage.flows.ranks for stage in stages if stage.flows is not None]
                + [max(stage.ranks) + 1 for stage in stages if stage.ranks], default=0)
    return JobSpec(job_id, arrival_s, stages=stages, hosts=tuple(range(ranks)), **keys)


@st.composite
def steps_of(draw: st.DrawFn, flows: int) -> tuple[tuple[Any, int], ...]:
    """Return the steps of a collective, each with some of the flows."""
    if not flows:
        return ()
    places = st.lists(st.integers(0, flows - 1), min_size=1, max_size=3)
    return tuple((np.array(each, np.int64), draw(st.integers(1, 9)))
                 for each in draw(st.lists(places, max_size=2)))


@st.composite
def ranked(draw: st.DrawFn) -> Workload:
    """Return a job for the form ``jobs`` whose ranks compute, or whose iterations overlap."""
    names = draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
    stages = [Stage(name, draw(st.none() | FLOWS), draw(NUMBERS),
                    [each for each in names[:k] if draw(st.booleans())],
                    ranks=draw(st.permutations(range(4)))[:draw(st.integers(0, 4))],
                    stream=draw(TEXTS), after_previous=[name] * draw(st.integers(0, 1)))
              for k, name in enumerate(names)]
    return Workload([placed(0, draw(NUMBERS), stages, iterations=draw(st.integers(1, 9)))])


@st.composite
def chains_and_graphs(draw: st.DrawFn) -> Workload:
    """Return jobs for the form ``jobs``."""
    jobs = []
    for number in range(draw(st.integers(1, 3))):
        names = draw(st.lists(TEXTS, min_size=1, max_size=3, unique=True))
        chain = draw(st.booleans())
        stages = []
        for k, name in enumerate(names):
            relation = draw(st.lists(st.integers(0, 2), min_size=k, max_size=k))
            parents = [[names[j] for j in range(k) if relation[j] == which] for which in (1, 2)]
            stages.append(
                Stage(f"c{k}", draw(FLOWS), draw(NUMBERS), (f"c{k - 1}",) if k else ()) if chain
                else Stage(name, flows := draw(st.none() | FLOWS), draw(NUMBERS), *parents,
                           deadline_s=draw(DEADLINES), overhead_s=draw(OVERHEADS),
                           steps=draw(steps_of(len(flows or ())))))
        jobs.append(placed(number, draw(NUMBERS), stages, name=draw(TEXTS),
                           iterations=draw(st.integers(1, 9))))
    return Workload(jobs, draw(TEXTS))


@st.composite
def coflows(draw: st.DrawFn) -> Workload:
    """Return jobs for the form ``coflows``; releases are instants less the arrival."""
    jobs = []
    ids = iter(draw(st.lists(st.integers(0, 10**15), min_size=9, max_size=9, unique=True)))
    for number in draw(st.lists(st.integers(0, 10**15), min_size=1, max_size=3, unique=True)):
        arrival_s = draw(st.floats(0, 1e9))
        stages: list[Stage] = []
        for k in range(draw(st.integers(1, 3))):
            relation = draw(st.lists(st.integers(0, 2), min_size=k, max_size=k))
            parents = [[stages[j].name for j in range(k) if relation[j] == which]
                       for which in (1, 2)]
            release_s = arrival_s + draw(st.floats(0, 1e9)) - arrival_s if k else 0.0
            coflow = next(ids)
            stages.append(Stage(str(coflow), draw(FLOWS), 0.0, *parents, release_s,
                                draw(st.floats(1e-18, 1e18)), coflow, draw(DEADLINES),
                                overhead_s=draw(OVERHEADS)))
        jobs.append(placed(number, arrival_s, stages))
    return Workload(jobs, draw(TEXTS))


@st.composite
def shuffles(draw: st.DrawFn) -> Workload:
    """Return coflows with equal parts from mappers to reducers, on 4 ports."""
    jobs = []
    for number in draw(st.lists(st.integers(0, 10**15), min_size=1, max_size=3, unique=True)):
        mappers = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
        reducers = draw(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e16)), min_size=1,
                                 max_size=3))
        flows = [(src, dst, nbytes) for dst, nbytes in reducers for src in mappers]
        jobs.append(JobSpec(number, draw(NUMBERS), hosts=range(4),
                            stages=[Stage(str(number), flows, coflow_id=number)]))
    return Workload(jobs, "t")


@given(workload=chains_and_graphs() | ranked() | coflows())
def test_json_reads_back_as_it_was(workload: Workload, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("round") / "t.json"
    write_instance(workload, path)
    assert everything(read_instances(path)) == everything(workload)


@given(workload=shuffles())
def test_shuffles_read_back_from_json(workload: Workload, tmp_path_factory) -> None:
    """But for the hosts that no flow needs: JSON says hosts by the flows alone."""
    path = tmp_path_factory.mktemp("round") / "t.json"
    write_instance(workload, path)
    needed = Workload([placed(job.id, job.arrival_s, list(job.stages)) for job in workload], "t")
    assert everything(read_instances(path)) == everything(needed)


@given(workload=shuffles())
@pytest.mark.parametrize(("megabyte", "first_port"), [("1MB", 0), ("1MiB", 1), (0.3, 7)])
def test_the_coflow_benchmark_reads_back_as_it_was(
    workload: Workload, megabyte: object, first_port: int, tmp_path_factory
) -> None:
    path = tmp_path_factory.mktemp("round") / "t.txt"
    options = {"megabyte": megabyte, "first_port": first_port}
    write_coflow_benchmark(workload, path, **options)
    assert everything(read_coflow_benchmark(path, **options)) == everything(workload)


def test_the_sample_reads_back_from_both(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "workloads" / "coflow-sample.txt"
    workload = read_coflow_benchmark(source)
    write_coflow_benchmark(workload, tmp_path / "coflow-sample.txt")
    assert (tmp_path / "coflow-sample.txt").read_text() == source.read_text().replace(".0", "")
    write_instance(workload, tmp_path / "t.json")
    again = read_instances(tmp_path / "t.json")
    write_coflow_benchmark(again, tmp_path / "coflow-sample.txt")
    assert everything(read_coflow_benchmark(tmp_path / "coflow-sample.txt")) == everything(
        workload)


def test_sizes_that_the_reader_would_refuse(tmp_path: Path) -> None:
    workload = Workload([placed(1, 0.0, [Stage("1", [(0, 1, 1e18)])])])
    with pytest.raises(InputError, match=r"^job 1: MB_1 must be a number from 0 to 1e\+18, not "):
        write_coflow_benchmark(workload, tmp_path / "t.txt", megabyte=0.5)


def test_numbers_are_written_short(tmp_path: Path) -> None:
    """0.1 s is 100 ms, not 100.00000000000001; a third of 1 MB each from 3 is 1 MB."""
    flows = [(src, 3, 1e6 / 3) for src in range(3)]
    write_coflow_benchmark(Workload([placed(1, 0.1, [Stage("1", flows)]),
                                     placed(2, 2.675, [Stage("2", flows)])]), tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text() == "4 2\n1 100 3 0 1 2 1 3:1\n2 2675 3 0 1 2 1 3:1\n"


def test_flows_are_written_between_hosts(tmp_path: Path) -> None:
    """And computation of the job with the stages that nothing precedes."""
    stages = [Stage("c0", [FLOW], 1.0), Stage("c1", [FLOW], 2.0, ("c0",))]
    job = JobSpec(0, 0.5, stages=stages, hosts=(7, 3), compute_s=0.25)
    write_instance(Workload([job], "w"), tmp_path / "t.json", network={"hosts": 8})
    flow = {"src": 7, "dst": 3, "bytes": 5.0}
    assert json.loads((tmp_path / "t.json").read_text()) == {
        "name": "w", "hosts": 8,
        "jobs": [{"arrival_s": 0.5, "compute_s": [1.25, 2.0], "coflows": [[flow], [flow]]}]}
    job = JobSpec(4, stages=[Stage("x", [FLOW])], hosts=(7, 3))
    write_coflow_benchmark(Workload([job]), tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text() == "8 1\n4 0 1 7 1 3:0.000005\n"


ONE = [Stage("1", [FLOW], coflow_id=1)]
STEPS = ((np.array([0]), 3),)


def spec(stages: list[Stage] | None = None, **keys: Any) -> JobSpec:
    return JobSpec(**{"id": 1, "stages": ONE if stages is None else stages, "hosts": (0, 1)} | keys)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(("job", "message"), [
    (JobSpec(1, pattern="all-to-all", ranks=2, nbytes=1),
     "job 1 names a pattern; draw its stages first"),
    (spec(hosts=None), "job 1 does not say the hosts of its ranks, and there is no network to "
                       "place them on"),
    (spec(hosts=(0, 4)), "job 1 has a host that is not from 0 to 3"),
    (spec(arrival_s=1e16), "job 1 has an arrival, a release, a computation or an overhead "
     "beyond 1e15 s"),
    (spec([Stage("1", [(0, 1, 1e19)])]), "job 1 has a flow beyond 1e18 bytes"),
    (spec([Stage("1", [FLOW], weight=1e-30)]), "job 1 has a stage with a weight that is not a "
                                               "number from 1e-18 to 1e+18"),
    (spec([Stage("1", [FLOW], deadline_s=1e19)]), "job 1 has a stage with a deadline that is not "
                                                  "a number from 1e-18 to 1e+18"),
])
def test_what_no_format_says(write, job: JobSpec, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write(Workload([job]), tmp_path / "t", network={"hosts": 4})
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("job", "as_jobs", "as_coflows"), [
    (spec([Stage("1", [FLOW])], iterations=2),
     "job 1 is number 0 in order of ids, and the id must be this number",
     "job 1 has more than one iteration"),
    (spec(id=0, compute_s=1), "job 0 has a coflow with an id", "job 0 computes"),
    (spec([Stage("a", [FLOW], weight=2)], id=0), "job 0 has a stage with a weight",
     "job 0 has a coflow without an id"),
    (spec([Stage("a", [FLOW], release_s=2, coflow_id=3)], id=0),
     "job 0 has a stage with a release time", "job 0 has no coflow that is released with it"),
    (spec([Stage("a", None)]), "job 1 is number 0 in order of ids, and the id must be this number",
     "job 1 has a stage without flows"),
])
def test_what_json_does_not_say(job, as_jobs: str, as_coflows: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_instance(Workload([job]), tmp_path / "t.json")
    assert str(caught.value) == ("no explicit instance can express this workload; in the form "
                                 f"'jobs': {as_jobs}; in the form 'coflows': {as_coflows}")
    assert list(tmp_path.iterdir()) == []


UNEQUAL = ("job 1 is not a coflow in which every mapper sends an equal part to each reducer in "
           "turn")


@pytest.mark.parametrize(("job", "message"), [
    (spec([*ONE, Stage("2")]), "job 1 has 2 stages, and this format has one coflow per job"),
    (spec([Stage("1", [FLOW])], iterations=2), "job 1 has more than one iteration"),
    (spec(compute_s=1), "job 1 computes"),
    (spec([Stage("1", [FLOW], 2.0)]), "job 1 computes"),
    (spec([Stage("1", [FLOW], weight=2)]), "job 1 has a coflow with a weight"),
    (spec([Stage("1", [FLOW], deadline_s=2)]), "job 1 has a coflow with a deadline"),
    (spec([Stage("1", [FLOW], overhead_s=0)]), "job 1 has a coflow with an overhead"),
    (spec([Stage("1", [FLOW], steps=STEPS)]),
     "job 1 has a coflow that stands for the steps of a collective"),
    (spec([Stage("1", [FLOW], release_s=2)]), "job 1 has a coflow that is not released with it"),
    (spec([Stage("1", [FLOW], coflow_id=2)]), "job 1 has a coflow with another id"),
    (spec([Stage("1", [])]), "job 1 has no flows"),
    (spec([Stage("1", None)]), "job 1 has no flows"),
    (spec([Stage("1", [(0, 1, 2.0), (1, 1, 3.0)])]), UNEQUAL),
    (spec([Stage("1", [(0, 1, 2.0), (1, 1, 3.0), (0, 0, 1.0)])]), UNEQUAL),
    (spec([Stage("1", [(0, 1, 2.0), (1, 1, 2.0), (1, 0, 1.0), (0, 0, 1.0)])]), UNEQUAL),
    (spec([Stage("1", [(0, 1, 2.0), (0, 0, 1.0), (1, 1, 2.0), (1, 0, 1.0)])]), UNEQUAL),
])
def test_what_the_coflow_benchmark_does_not_say(job, message: str, tmp_path) -> None:
    with pytest.raises(InputError) as caught:
        write_coflow_benchmark(Workload([job]), tmp_path / "t.txt")
    assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", WRITERS)
def test_a_file_that_cannot_be_written(write, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write(Workload([spec()]), tmp_path / "none" / "t")


# --- convert ------------------------------------------------------------------------------


def test_convert_reads_and_writes_by_suffix(tmp_path: Path) -> None:
    written = convert("coflow-sample", tmp_path / "t.json", limit=3, seed=4)
    assert [job.id for job in written] == [1, 2, 3]
    convert(tmp_path / "t.json", tmp_path / "t.dat", to="coflow-benchmark")
    again = read_workload(tmp_path / "t.dat", format="coflow-benchmark")
    assert [[tuple(flow) for flow in job.stages[0].flows] for job in again] == [
        [tuple(flow) for flow in job.stages[0].flows] for job in written]


@pytest.mark.parametrize(("target", "to", "kind", "message"), [
    ("t.dat", None, InputError, r"t\.dat: no format has the suffix '\.dat'; give one of: json, "),
    ("t.csv", None, UnknownNameError, "unknown format to write 'tiresias'; choose from: chakra"),
    ("t.json", "jsn", UnknownNameError, r"unknown format to write 'jsn' \(did you mean 'json'"),
])
def test_a_target_that_is_no_format(target, to, kind, message, tmp_path: Path) -> None:
    with pytest.raises(kind, match=message):
        convert("coflow-sample", tmp_path / target, to=to)


@pytest.fixture
def simulated() -> Callable[..., list[float]]:
    """Return a function that runs a workload under max-min: the JCTs by job."""

    def run(network: netsim.Topology, workload: Workload, seed: int = 0) -> list[float]:
        jobs = netsim.simulate(network, workload, seed=seed).jobs.sort_values("job")
        return jobs["jct_s"].tolist()

    return run


def test_what_was_drawn_runs_as_before(tmp_path: Path, simulated) -> None:
    options = {"jobs": 6, "iterations": 2, "arrival_scale": 0.01, "length": "50MB"}
    workload = read_workload(format="synthetic", seed=3, **options)
    jobs = [JobSpec(**{name: getattr(job, name) for name in job.__slots__}
                    | {"compute_s": 0.01 * job.id}) for job in workload]
    workload = Workload(jobs, seed=3)
    network = netsim.big_switch(64, "10Gbps")
    write_instance(explicit(workload, network, seed=5), tmp_path / "t.json")
    again = read_workload(tmp_path / "t.json")
    assert simulated(network, again) == pytest.approx(simulated(network, workload, 5), rel=1e-12)


def test_a_network_is_written_with_the_jobs(tmp_path: Path, simulated) -> None:
    path = tmp_path / "t.json"
    convert_drawn("parrot-60", path, network="big-switch-128-10g", seed=2, iterations=1,
                  poisson_jobs=3, poisson_mean="1s")
    network = netsim.read_network(path)
    assert (network.hosts, network.capacity.tolist()) == (128, [1.25e9] * 256)
    workload = read_workload("parrot-60", seed=2, iterations=1, poisson_jobs=3, poisson_mean="1s")
    assert simulated(network, read_workload(path)) == pytest.approx(
        simulated(network, workload, 2), rel=1e-12)


def test_patterns_that_cannot_be_written(tmp_path: Path) -> None:
    target = tmp_path / "t.json"
    with pytest.raises(InputError, match="job 0 names a pattern"):
        convert("parrot-60", target)
    with pytest.raises(InputError, match=r"job 0 has operations of ranks; .*write_chakra"):
        write_instance(Workload([netsim.llm_job("llama-7b", dp=2, global_batch=2)]), target)
    both = [Stage("a", compute_s=1, ranks=[0, 1])]
    with pytest.raises(InputError, match="job 0 has ranks that compute, and several of them on"):
        write_instance(Workload([JobSpec(0, stages=both, hosts=(3, 3))]), target)
    with pytest.raises(InputError, match="job 0 does not say the hosts"):
        convert_drawn("parrot-60", target)
    with pytest.raises(InputError, match="job 0 draws new flows in each of 10 iterations"):
        convert_drawn("parrot-60", target, redraw=True)
    with pytest.raises(InputError, match=r"needs .* distinct hosts"):
        convert_drawn("parrot-60", target, network=netsim.big_switch(4))
    assert list(tmp_path.iterdir()) == []
    job = JobSpec(0, pattern="all-to-all", ranks=3, nbytes=9.0, redraw=True, hosts=(2, 1, 0))
    (drawn,) = explicit(Workload([job]))
    assert (drawn.pattern, drawn.redraw, drawn.hosts) == (None, False, (2, 1, 0))
