"""Jobs of an edge-cloud with the arrivals and sizes of traces of GPU clusters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim import EdgeCloud, SpecError
from netsim.edge.files import EDGE_JOBS, read_edge_jobs
from netsim.edge.from_trace import _mini_batches, trace_edge_jobs
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.experiment_file.experiment import Experiment
from netsim.traces import FORMATS
from netsim.traces.cluster.readers import CLUSTER_TRACES

TRACES = Path(__file__).parents[1] / "traces" / "cluster"

FILES = {"philly": TRACES / "philly.json", "pai": TRACES / "pai" / "pai_job_table.csv",
         "pai-100k": TRACES / "pai100k.csv", "gpu-v2023": TRACES / "pods.csv",
         "acme": TRACES / "acme.csv", "swf": TRACES / "jobs.swf",
         "helios": Path(netsim.__file__).parents[1] / "workloads" / "helios-sample.csv"}

#: Jobs 0 and 2 ran on 2 and 8 GPUs; job 1 has no GPU and is dropped.
ROWS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,2,10,606,vgg19,7200,30
1,0,15,606,vgg19,60,30
2,8,40,133,vgg11,600,23
"""


@pytest.fixture
def tiresias(tmp_path: Path) -> Path:
    path = tmp_path / "three.csv"
    path.write_text(ROWS)
    return path


def test_what_maps_to_what(tiresias) -> None:
    """Arrivals count from the first job; g GPUs are g workers and c g chunks of d / c seconds."""
    jobs = trace_edge_jobs(tiresias, "tiresias-cluster", chunks_per_gpu=3, arrival_scale=2,
                           servers=2).jobs
    assert [(job.id, job.arrival_s, job.gang, job.chunks) for job in jobs] == [
        (0, 0, 2, 6), (1, 60, 8, 24)]
    assert [job.p1_s for job in jobs] == pytest.approx([2400, 200])
    halved = trace_edge_jobs(tiresias, "tiresias-cluster", duration_scale=0.5, servers=2)
    assert [job.p1_s for job in halved] == pytest.approx([3600, 300])
    assert [job.chunks for job in halved] == [2, 8]


def test_a_job_takes_its_time_on_its_gpus(tiresias) -> None:
    """On as many workers, with the data there and no exchanges, each lasts as in the trace."""
    jobs = trace_edge_jobs(tiresias, "tiresias-cluster", chunks_per_gpu=3, servers=1, types=["a"],
                           gradients=[0, 0], upload=[0, 0])
    found = netsim.simulate(EdgeCloud([["a"] * 10]), jobs, scheduler="srtf").jobs
    assert found["jct_s"].tolist() == pytest.approx([7200, 600])


def test_all_else_is_drawn_as_without_a_trace(tiresias) -> None:
    drawn = sorted(netsim.draw_edge_jobs(2, servers=3, seed=5), key=lambda job: job.id)
    for job, other in zip(trace_edge_jobs(tiresias, "tiresias-cluster", servers=3, seed=5), drawn,
                          strict=True):
        for name in ("worker_type", "gradient_bytes", "bandwidth", "upload_s", "cloud_upload_s"):
            assert getattr(job, name) == getattr(other, name)
        assert job.compute_s / job.update_s == pytest.approx(other.compute_s / other.update_s)


def test_the_setting_of_a_online_with_arrivals_of_philly() -> None:
    """Arrivals and workers are those of the trace, all else is as `edge-jobs` draws it."""
    read = CLUSTER_TRACES.resolve("philly")(FILES["philly"])
    jobs = trace_edge_jobs(FILES["philly"], "philly", chunks=[27, 115, 60], servers=3, seed=5).jobs
    drawn = sorted(netsim.draw_edge_jobs(len(read), servers=3, seed=5), key=lambda job: job.id)
    assert [job.gang for job in jobs] == read.gpus.tolist()
    assert [job.arrival_s for job in jobs] == read.submit_s.tolist()
    for job, other in zip(jobs, drawn, strict=True):
        for name in ("worker_type", "chunks", "minibatches", "epochs", "compute_s", "update_s",
                     "gradient_bytes", "bandwidth", "upload_s", "cloud_upload_s"):
            assert getattr(job, name) == getattr(other, name), name


def test_arrivals_fill_a_span(tiresias) -> None:
    """30 s apart in the trace; a single instant has nothing to scale."""
    jobs = trace_edge_jobs(tiresias, span="1800h", servers=0).jobs
    assert [job.arrival_s for job in jobs] == [0, 1800 * 3600]
    assert [job.arrival_s for job in trace_edge_jobs(tiresias, span="1h", limit=1, servers=0)
            ] == [0]


def test_some_jobs_of_all_of_a_trace(tmp_path) -> None:
    """As many as wanted, in order; another seed draws others; all if there are fewer."""
    path = tmp_path / "fifty.csv"
    path.write_text(ROWS.partition("\n")[0] + "\n" + "".join(
        f"{k},1,{k},606,vgg19,60,30\n" for k in range(50)))

    def arrivals(seed: int, **options: int) -> list[float]:
        jobs = trace_edge_jobs(path, "tiresias-cluster", servers=0, seed=seed, **options)
        return [job.arrival_s for job in jobs]

    some = arrivals(1, sample=20)
    assert len(set(some)) == 20
    assert max(some) > 25
    assert some == arrivals(1, sample=20) == sorted(some) != arrivals(2, sample=20)
    assert arrivals(1, sample=60) == list(range(50))


@given(st.floats(1e-3, 1e8), st.floats(1e-3, 1e4), st.floats(0, 10))
def test_mini_batches_add_up_to_the_training(trained_s, compute_s, update_s) -> None:
    """In the nearest whole number: beyond the first, scaled by less than 1/2 of one of them."""
    found = _mini_batches(trained_s, compute_s, update_s)
    count, took = found["minibatches"], found["compute_s"] + found["update_s"]
    assert count * took == pytest.approx(trained_s)
    assert count == 1 or abs(trained_s - count * (compute_s + update_s)) <= (
        compute_s + update_s) * (0.5 + 1e-6)


@pytest.mark.parametrize("trace", FILES)
def test_every_trace_of_a_cluster(trace) -> None:
    """Whose columns are those of the jobs."""
    read = CLUSTER_TRACES.resolve(trace)(FILES[trace])
    jobs = trace_edge_jobs(FILES[trace], trace, servers=0, slot=1).jobs
    assert [job.gang for job in jobs] == read.gpus.tolist()
    np.testing.assert_allclose([job.arrival_s for job in jobs], read.submit_s)
    np.testing.assert_allclose([job.p1_s for job in jobs], read.duration_s)


def test_readers_have_the_names_of_formats() -> None:
    assert {*CLUSTER_TRACES} <= {*FORMATS}
    assert {*CLUSTER_TRACES} == {*FILES, "tiresias-cluster"}


def test_options_of_readers_and_choices() -> None:
    some, more = (len(trace_edge_jobs(FILES["philly"], trace, servers=0))
                  for trace in ("philly", "philly:failed=true"))
    assert more > some
    assert len(trace_edge_jobs(FILES["philly"], "philly:failed=true", limit=1, servers=0)) == 1
    few = trace_edge_jobs(FILES["philly"], {"name": "philly", "failed": True}, max_gpus=1,
                          servers=0)
    assert {job.gang for job in few} == {1}


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"trace": "phily"}, UnknownNameError, "unknown trace of a GPU cluster 'phily' .did you mean"),
    ({"trace": "tiresias-cluster:failed=true"}, UnknownNameError, "unknown option of trace 'tires"),
    ({"trace": "philly:path=x"}, InputError, "trace: the path is that of file, not an option of"),
    ({"trace": "json:loads"}, InputError, "json:loads"),
    ({"trace": "philly"}, TraceError, "the file must hold a JSON array"),
    ({"file": "none.csv"}, TraceError, "none.csv: no such file"),
    ({"file": 3}, InputError, "file must be a name or a path, not 3"),
    ({"limit": 0}, InputError, "limit must be a whole number of at least 1"),
    ({"max_gpus": 1}, InputError, "max_gpus = 1 leaves none of 2 jobs: .* at least 2"),
    ({"chunks_per_gpu": 0}, InputError, "chunks_per_gpu must be a whole number of at least 1"),
    ({"arrival_scale": -1}, InputError, "arrival_scale must be a number from 0 to 1e\\+15"),
    ({"duration_scale": 0}, InputError, "duration_scale must be a number from 1e-15 to 1e"),
    ({"compute": [0, 0], "update": [0, 0]}, InputError, "compute and update: a mini-batch must"),
    ({"upload": ["90min", "3h"]}, InputError, "upload must be a multiple of the slot, 3600 s"),
    ({"sample": 0}, InputError, "sample must be a whole number of at least 1"),
    ({"sample": 1, "limit": 1}, InputError, "give either limit, .* or sample, .* not both"),
    ({"span": "1h", "arrival_scale": 2}, InputError, "give either arrival_scale or span, not bo"),
    ({"span": -1}, InputError, "span must be at least 0"),
    ({"chunks": []}, InputError, "chunks must not be empty"),
    ({"chunks": [3], "chunks_per_gpu": 2}, InputError, "chunks: with these, chunks_per_gpu and"),
    ({"exchange": "tree"}, UnknownNameError, "unknown exchange of job 0 'tree'")])
def test_what_cannot_be(tiresias, options, error, message) -> None:
    with pytest.raises(error, match=message):
        trace_edge_jobs(**{"file": tiresias, "trace": "tiresias-cluster"} | options)


# --- in files -------------------------------------------------------------------------------


def test_a_workload_file_names_its_trace(tiresias, tmp_path) -> None:
    """Relative to itself; with the servers and types of the system."""
    path = tmp_path / "mine.toml"
    path.write_text('format = "edge-trace"\nfile = "three.csv"\ntrace = "tiresias-cluster"\n')
    system = EdgeCloud([["gpu"], ["gpu", "tpu"]])
    jobs = read_edge_jobs(path, system, limit=1)
    assert (jobs.name, len(jobs), len(jobs.jobs[0].upload_s)) == ("mine", 1, 2)
    assert jobs.jobs[0].worker_type in ("gpu", "tpu")
    direct = EDGE_JOBS.make({"format": "edge-trace", "file": tiresias,
                             "trace": "tiresias-cluster"}, system=system)
    assert (direct.name, len(direct)) == ("three", 2)
    with pytest.raises(InputError, match="give either format or file, not both"):
        EDGE_JOBS.make({"format": "edge-jobs", "file": tiresias})
    with pytest.raises(InputError, match="format 'edge-trace' needs: file"):
        EDGE_JOBS.make({"format": "edge-trace"})


def experiment(path: Path, **workload: object) -> Experiment:
    return Experiment(edge_cloud={"kind": "edge-servers", "servers": 4, "types": 2},
                      workload={"format": "edge-trace", "file": str(path),
                                "trace": "tiresias-cluster"} | workload, seed=3)


def test_an_experiment_pins_its_trace(tiresias) -> None:
    """By path and digest; when the file changes, it says so."""
    given = experiment(tiresias, chunks_per_gpu=2)
    resolved = given.resolved()
    assert resolved["workload"]["file"] == str(tiresias)
    assert len(resolved["workload"]["sha256"]) == 64
    again = Experiment(**resolved)
    assert again.resolved() == resolved
    assert netsim.run(again).jobs.equals(netsim.run(given).jobs)
    tiresias.write_text(ROWS.replace("7200", "7300"))
    with pytest.raises(SpecError, match=r"workload\.sha256: .*three\.csv has changed: its sha256"):
        Experiment(**resolved)


def test_problems_name_their_keys(tiresias, tmp_path) -> None:
    for wrong, problem in (({"trace": "phily"}, "workload.trace"), ({"limit": 0}, "workload.limit"),
                           ({"pieces": [3]}, "workload.pieces"),
                           ({"file": str(tmp_path / "no.csv")}, "workload.file")):
        with pytest.raises(SpecError) as caught:
            experiment(tiresias, **wrong)
        assert caught.value.problems[0].startswith(problem), caught.value.problems


def test_an_experiment_with_100_servers_and_arrivals_of_philly(tmp_path) -> None:
    (tmp_path / "cluster_job_log").write_bytes(FILES["philly"].read_bytes())
    (tmp_path / "e.toml").write_text("""\
scheduler = "a-online"
[edge_cloud]
name = "edge-servers-100"
[workload]
format = "edge-trace"
file = "cluster_job_log"
trace = "philly"
chunks = [27, 115, 60]
sample = 300
span = "1800h"
""")
    experiment = netsim.load_experiment(tmp_path / "e.toml")
    assert [len(job.upload_s) for job in experiment.jobs] == [100] * len(experiment.jobs)
    assert max(job.arrival_s for job in experiment.jobs) == 1800 * 3600
    assert netsim.run(experiment).summary()["jobs_finished"] == len(experiment.jobs)


def test_a_file_of_an_experiment_is_found_beside_it_and_swept(tiresias, tmp_path) -> None:
    (tmp_path / "e.toml").write_text("""\
[edge_cloud]
kind = "edge-servers"
servers = 4
types = 2
[workload]
format = "edge-trace"
file = "three.csv"
trace = "tiresias-cluster"
""")
    for plugins in (True, False):
        assert len(netsim.load_experiment(tmp_path / "e.toml", plugins=plugins).jobs) == 2
    swept = netsim.sweep_experiment(tmp_path / "e.toml", {"workload.chunks_per_gpu": [1, 2]})
    assert swept.table["chunks"].tolist() == [10, 20]
    (tmp_path / "e.toml").write_text((tmp_path / "e.toml").read_text().replace(
        "three.csv", "../three.csv"))
    with pytest.raises(SpecError, match=r"workload\.file"):
        netsim.load_experiment(tmp_path / "e.toml", plugins=False)
