"""Code of the user's own, for each kind that has names, in Python and in experiment files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import netsim
from netsim import Flow, JobSpec, Stage, Workload
from netsim.cluster import Contention
from netsim.errors import InputError, SpecError, TraceError, UnknownNameError
from netsim.experiment_file.load import Draft
from netsim.experiment_file.tables import SweepTable
from netsim.models.catalogue import make_model
from netsim.models.mapping import Mapped, heavy_edge
from netsim.studies.code_version import code_version
from netsim.studies.grid import runs_of_experiment
from netsim.traces import format_of

HERE = __name__


@dataclasses.dataclass
class Fan:
    """Rank 0 sends to all others."""

    times: int = 1

    def stages(self, ranks: int, nbytes: float, rng: Any) -> tuple[Stage, ...]:
        return tuple(Stage(f"fan-{k}", [Flow(0, rank, nbytes) for rank in range(1, ranks)])
                     for k in range(self.times))


class Without:
    """Its method takes no bytes."""

    def stages(self, ranks: int) -> tuple[Stage, ...]:
        return ()


def pairs(path: Path, *, seed: int = 0, scale: float = 1.0) -> Workload:
    """Read a line per job, the bytes from host 0 to host 1."""
    sizes = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        try:
            sizes.append(float(line) * scale)
        except ValueError:
            raise TraceError(f"must be a number, not {line!r}", path, number) from None
    return Workload([JobSpec(k, stages=[Stage("all", [Flow(0, 1, size)])])
                     for k, size in enumerate(sizes)], "pairs", seed=seed)


def one_job(nbytes: float) -> Workload:
    """Make one job; there is neither a file nor a seed."""
    return Workload([JobSpec(0, stages=[Stage("all", [Flow(0, 1, nbytes)])])])


def two_hosts(capacity: float = 1e6) -> netsim.Topology:
    """Build two hosts."""
    return netsim.big_switch(2, capacity)


def small_net(gpus: int, *, micro_batches: int = 1) -> netsim.ParallelModel:
    """Make a model of one stage."""
    return netsim.ParallelModel([netsim.ModelStage(gpus, 0.1, 0.2, param_bytes=1e6)],
                                name="small", micro_batches=micro_batches)


def one_server(seed: int = 0) -> netsim.EdgeCloud:
    """Make an edge-cloud of one server."""
    return netsim.EdgeCloud([["gpu"]])


@dataclasses.dataclass(frozen=True)
class Quick(Contention):
    """Rings that contend, in continuous time."""

    time: str = "continuous"


nothing = None


@pytest.fixture
def sizes(tmp_path: Path) -> Path:
    (tmp_path / "sizes.dat").write_text("1e6\n2e6\n")
    return tmp_path / "sizes.dat"


@pytest.mark.parametrize(("pattern", "coflows"), [
    (f"{HERE}:Fan", 1), (f"{HERE}:Fan:times=3", 3), ({"name": f"{HERE}:Fan", "times": 2}, 2),
    (Fan, 1), (Fan(2), 2)])
def test_a_pattern(pattern: Any, coflows: int) -> None:
    job = JobSpec(0, pattern=pattern, ranks=3, nbytes=1e6)
    assert len(netsim.simulate(netsim.big_switch(3, 1e6), [job]).coflows) == coflows
    netsim.testing.check_pattern(pattern)


@pytest.mark.parametrize("pattern", [f"{HERE}:Fan:times=2", {"name": f"{HERE}:Fan", "times": 2}])
def test_a_pattern_in_an_experiment(pattern: Any) -> None:
    workload = {"format": "synthetic", "jobs": 3, "iterations": 2, "pattern": pattern}
    experiment = netsim.Experiment(network={"name": "big-switch-128-10g"}, workload=workload)
    assert len(netsim.run(experiment).coflows) == 3 * 2 * 2
    again = netsim.Experiment(**experiment.resolved())
    assert again.resolved() == experiment.resolved()


@pytest.mark.parametrize(("pattern", "problem"), [
    ("gossip", "workload.pattern: unknown pattern 'gossip'"),
    ("a:", "workload.pattern: unknown pattern 'a:'"),
    (f"{HERE}:Fan:time=2", "workload.pattern: unknown option of pattern '.*:Fan' 'time'"),
    (f"{HERE}:nothing", "workload.pattern: pattern '.*:nothing' cannot be made"),
    (f"{HERE}:Quick", "workload.pattern: '.*:Quick' is not a pattern: it needs a method stages"),
    (f"{HERE}:Without", r"a pattern: it needs a method stages\(ranks, nbytes, rng\) that returns "),
    (3, "workload.pattern: pattern must be a name, or a mapping with a 'name' and options, not 3"),
])
def test_patterns_that_are_none_are_found_before_the_run(pattern: Any, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        netsim.Experiment(network={"name": "big-switch-128-10g"},
                          workload={"format": "synthetic", "jobs": 3, "pattern": pattern})


def test_options_of_a_pattern_on_one_line() -> None:
    """Whoever looks for the name of a job's pattern finds it."""
    on_one_line = JobSpec(0, pattern="ring-all-reduce:stepwise=true", ranks=2, nbytes=1e6)
    assert on_one_line.pattern == {"name": "ring-all-reduce", "stepwise": True}


def test_a_pattern_takes_no_parameter_servers() -> None:
    with pytest.raises(InputError, match="servers and servers_max are for parameter servers"):
        netsim.read_workload(format="synthetic", servers=2, pattern=f"{HERE}:Fan")


def test_a_format(sizes: Path) -> None:
    jobs = netsim.read_workload(sizes, format=f"{HERE}:pairs", scale=2, seed=7)
    assert [stage.flows.nbytes.tolist() for job in jobs for stage in job.stages] == [[2e6], [4e6]]
    assert jobs.seed == 7
    assert dict(netsim.check_trace(sizes, f"{HERE}:pairs").facts)["bytes in total"] == 3e6
    assert format_of(f"{HERE}:pairs").options == ("scale", "poisson_jobs", "poisson_mean", "limits")
    assert len(netsim.read_workload(format=f"{HERE}:one_job", nbytes=5)) == 1


def test_a_format_in_an_experiment(sizes: Path) -> None:
    for table in ({"file": str(sizes), "format": f"{HERE}:pairs", "scale": 2},
                  {"format": f"{HERE}:one_job", "nbytes": 4e6}):
        experiment = netsim.Experiment(network={"name": "parrot-fig2"}, workload=table)
        assert netsim.run(experiment).jobs["jct_s"].max() >= 4
        again = netsim.Experiment(**experiment.resolved())
        assert again.resolved() == experiment.resolved()


def test_a_format_in_a_workload_file(sizes: Path) -> None:
    file = sizes.with_name("w.toml")
    file.write_text(f'format = "{HERE}:pairs"\nfile = "sizes.dat"\nscale = 3\n')
    assert netsim.read_workload(file).jobs[0].stages[0].flows.nbytes.tolist() == [3e6]


@pytest.mark.parametrize(("format", "options", "error", "message"), [
    ("pairs", {"scal": 2}, UnknownNameError, r"unknown .*:pairs option 'scal' \(did you mean 'sca"),
    ("nothing", {}, InputError, "nothing' is not a format: it must be a function that returns a n"),
    ("pears", {}, InputError, "workload format '.*:pears' cannot be loaded"),
    ("Fan", {}, InputError, "generates a workload; it cannot read"),
])
def test_formats_that_are_none(sizes: Path, format: str, options: dict[str, Any],
                               error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        netsim.read_workload(sizes, format=f"{HERE}:{format}", **options)


def test_what_a_format_returns_is_checked(sizes: Path) -> None:
    with pytest.raises(InputError, match="Fan' is not a format: it must return a netsim"):
        netsim.read_workload(format=f"{HERE}:Fan")
    sizes.write_text("1e6\nx\n")
    with pytest.raises(TraceError, match=r"sizes.dat:2: must be a number, not 'x'"):
        netsim.read_workload(sizes, format=f"{HERE}:pairs")


def test_a_kind_of_network() -> None:
    experiment = netsim.Experiment(network={"kind": f"{HERE}:two_hosts", "capacity": 5e6},
                                   workload={"name": "parrot-fig2"})
    assert experiment.target.capacity.tolist() == [5e6] * 4
    assert experiment.resolved()["network"] == {"kind": f"{HERE}:two_hosts", "capacity": 5e6}
    with pytest.raises(SpecError, match=r"network\.capacty: unknown option of topology"):
        netsim.Experiment(network={"kind": f"{HERE}:two_hosts", "capacty": 5e6},
                          workload={"name": "parrot-fig2"})
    with pytest.raises(SpecError, match=r"network.kind: '.*:Fan' is not a network: it must"):
        netsim.Experiment(network={"kind": f"{HERE}:Fan"}, workload={"name": "parrot-fig2"})


def test_a_kind_of_edge_cloud() -> None:
    made = netsim.edge.files.EDGE_CLOUDS.make({"kind": f"{HERE}:one_server"})
    assert made.servers == 1


def test_a_model() -> None:
    made = make_model(f"{HERE}:small_net", 4, micro_batches=2)
    assert (made.name, made.gpus, made.micro_batches) == ("small", 4, 2)
    with pytest.raises(InputError, match="one_server' is not a model: it must return a"):
        make_model(f"{HERE}:one_server", 4)


def first_servers(model: netsim.ParallelModel, counts: Any, server: Any, seed: int | None = None
                  ) -> Mapped:
    """Map as Heavy-Edge does."""
    return heavy_edge(model, counts, server)


def test_a_mapping() -> None:
    """The run is the same under another name."""
    jobs = [JobSpec(0, model=make_model("vgg19", 4), iterations=3)]
    cluster = netsim.Cluster(2, 3, nic="10Gbps")
    mine, usual = (netsim.simulate(cluster, jobs, execution="asrpt", placement={
        "name": "mapped", "mapping": name}) for name in (f"{HERE}:first_servers", "heavy-edge"))
    assert mine.jobs.equals(usual.jobs)
    with pytest.raises(InputError, match="unknown mapping 'heavy'"):
        netsim.simulate(cluster, jobs, execution="asrpt", placement="mapped:mapping=heavy")


def ids(workload: Workload, path: Path, *, network: Any) -> None:
    """Write the ids of the jobs."""
    Path(path).write_text(" ".join(str(job.id) for job in workload))


def test_a_format_to_write(tmp_path: Path) -> None:
    netsim.traces.convert("parrot-fig2", tmp_path / "ids", to=f"{HERE}:ids")
    assert (tmp_path / "ids").read_text().split() == ["0", "1"]
    with pytest.raises(UnknownNameError, match="unknown format to write 'csv'"):
        netsim.traces.convert("parrot-fig2", tmp_path / "ids", to="csv")


def test_an_execution() -> None:
    jobs = [JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6, iterations=3)]
    cluster = netsim.Cluster(gpus=[1, 1], nic="1MB/s")
    mine = netsim.simulate(cluster, jobs, execution=f"{HERE}:Quick:alpha=0.5")
    usual = netsim.simulate(cluster, jobs, execution="rar-contention:time=continuous:alpha=0.5")
    assert mine.jobs.equals(usual.jobs)
    assert mine.run["execution"]["name"] == f"{HERE}:Quick"
    with pytest.raises(InputError, match="Fan' is not an execution: it must derive from"):
        netsim.simulate(cluster, jobs, execution=f"{HERE}:Fan")


def steep(k: float, alpha: float, beta: float = 1.0) -> float:
    """Degrade as the linear function does, if beta is 1."""
    return k + alpha * beta * (k - 1)


@pytest.mark.parametrize("where", ["execution", "allocator"])
def test_a_degradation(tmp_path: Path, where: str) -> None:
    """The run is the same under another name, and from a file."""
    keys: dict[str, Any] = {
        "cluster": {"gpus": [1, 1, 1], "nic": "1MB/s"}, "scheduler": "fifo",
        "workload": {"format": "ring-jobs", "mix": {"2": 2, "3": 1}, "iterations": [2, 3],
                     "length": "1MB"}}
    own: dict[str, Any] = {"alpha": 0.5, "degradation": {"name": f"{HERE}:steep", "beta": 1}}
    policy = {"execution": {"name": "rar-contention", "time": "continuous"},
              "allocator": {"name": "ring-contention"}}[where]
    others = {"execution": "fabric"} if where == "allocator" else {}
    mine, usual = (netsim.run(netsim.Experiment(**keys, **others, **{where: policy | options}))
                   for options in (own, {"alpha": 0.5}))
    assert mine.jobs.equals(usual.jobs)
    mine.save(tmp_path / "run")
    assert netsim.load_result(tmp_path / "run").run[where]["degradation"] == own["degradation"]


def test_what_is_stored_depends_on_the_code_of_formats_and_patterns(sizes: Path) -> None:
    """A sweep's run is found again only as long as the modules that it names are as they were."""
    plain = {"network": {"name": "big-switch-128-10g"}, "allocator": "parrot"}
    for workload in ({"format": "synthetic", "jobs": 2, "pattern": f"{HERE}:Fan"},
                     {"file": str(sizes), "format": f"{HERE}:pairs"}):
        (cell,) = runs_of_experiment(Draft(plain | {"workload": workload}), SweepTable())
        assert cell.sent.code == code_version(HERE) != code_version()
