"""Edge-clouds and their jobs from tables and files."""

import re

import pytest

import netsim
from netsim.edge.files import EDGE_CLOUDS, EDGE_JOBS, read_edge_cloud, read_edge_jobs
from netsim.errors import InputError, TraceError
from netsim.network import ready_made as ready_made_networks
from netsim.traces import ready_made as ready_made_workloads


def test_ready_made_ones():
    for name, line in EDGE_CLOUDS.ready_made().items():
        system = read_edge_cloud(name, seed=1)
        assert system.name == name
        assert line.startswith(f"{system.servers} edge servers")
        assert name not in ready_made_networks()
    for name, line in EDGE_JOBS.ready_made().items():
        system = read_edge_cloud("edge-servers-100", seed=1)
        count = 30 if "testbed" in name else 300
        assert len(read_edge_jobs(name, system, seed=1)) == count
        assert line.startswith((f"{count} jobs", "As edge-jobs-300"))
        assert read_edge_jobs(name).name == name
        assert name not in ready_made_workloads()


def test_the_testbed_of_a_online():
    """Section V-A and Table II: two types of workers, six models, and the ranges that it gives."""
    system = read_edge_cloud("edge-testbed-8")
    assert (system.servers, set(system.types), system.cloud) == (8, {"gpu", "cpu"}, True)
    # Of 12 cores and 16 GB, a GPU worker takes 0 and 3, a CPU worker 3 and 2, a PS 2 and 3.
    for workers, servers in zip(system.workers, system.ps, strict=True):
        cpu = workers.count("cpu")
        assert workers.count("gpu") == 1
        assert (3 * cpu + 2 * len(servers), 3 + 2 * cpu + 3 * len(servers)) == (12, 16)
    jobs = read_edge_jobs("edge-testbed-30", system, jobs=500, seed=1).jobs
    assert {job.worker_type for job in jobs} == {"gpu", "cpu"}
    assert {(job.chunks, job.minibatches) for job in jobs} == {(27, 58), (115, 58), (60, 58)}
    assert {job.epochs for job in jobs} == set(range(20, 61))
    assert {delay / 3600 for job in jobs for delay in job.upload_s} == {1, 2, 3, 4}
    assert {job.cloud_upload_s / 3600 for job in jobs} == set(range(10, 16))
    assert all(12.5e6 <= job.bandwidth <= 125e6 for job in jobs)
    assert jobs[0].chunk_bytes == pytest.approx(101.8e6 / 60, rel=0.01)
    jobs = read_edge_jobs("edge-testbed-30", system, seed=1)
    assert max(job.arrival_s for job in jobs) < 180 * 3600
    assert netsim.simulate(system, jobs).summary()["jobs_finished"] == 30


def test_the_other_doors_say_which_one_it_is():
    with pytest.raises(TraceError, match=r"jobs of an edge-cloud; read it with netsim\.read"):
        netsim.read_workload("edge-jobs-300")
    with pytest.raises(TraceError, match=r"an edge-cloud, not a network; read it with netsim\."):
        netsim.read_network("edge-servers-100")


def test_jobs_need_types_that_the_system_has():
    system = EDGE_CLOUDS.make({"kind": "edge-listed", "workers": [["gpu"], ["tpu", "gpu"]],
                               "cloud": False})
    jobs = EDGE_JOBS.make({"format": "edge-jobs", "jobs": 30}, system=system)
    assert {job.worker_type for job in jobs} == {"gpu", "tpu"}
    assert {len(job.upload_s) for job in jobs} == {2}
    with pytest.raises(InputError, match="job 0 needs workers of type 0; there is no cloud"):
        EDGE_JOBS.make({"format": "edge-jobs", "jobs": 1, "types": 1}, system=system)


def test_listed_jobs():
    jobs = EDGE_JOBS.make({"format": "edge-listed", "jobs": [
        {"compute_s": "1h"}, {"id": 7, "compute_s": 2, "chunks": 3}]})
    assert [(job.id, job.compute_s, job.chunks) for job in jobs] == [(0, 3600, 1), (7, 2, 3)]


def test_a_file_of_ones_own(tmp_path):
    cloud = tmp_path / "mine.toml"
    cloud.write_text('kind = "edge-servers"\nservers = 3\n')
    assert read_edge_cloud(cloud, types=1).servers == 3
    assert read_edge_cloud(cloud, servers=4).name == "mine"
    jobs = tmp_path / "few.toml"
    jobs.write_text('format = "edge-jobs"\njobs = 3\n')
    assert len(read_edge_jobs(str(jobs))) == 3


def test_a_label_beside_a_name():
    assert read_edge_cloud("edge-servers-20", name="mine").name == "mine"
    assert read_edge_jobs("edge-jobs-300", jobs=1, name="few").name == "few"
    with pytest.raises(InputError, match="name must be a string, not 3"):
        read_edge_cloud("edge-servers-20", name=3)


@pytest.mark.parametrize(("table", "message"), [
    ({}, "give the name of a ready-made edge-cloud, a file, or a kind: edge-servers, edge-listed"),
    ({"name": "edge-servers-10"}, "unknown edge-cloud 'edge-servers-10' .did you mean"),
    ({"kind": "edge"}, "unknown kind of an edge-cloud 'edge'"),
    ({"kind": "edge-servers", "server": 3}, "unknown option of edge-cloud 'edge-servers' 'server'"),
    ({"kind": "edge-listed"}, "edge-cloud 'edge-listed' needs: workers"),
    ({"kind": "edge-listed", "file": "a.toml"}, "give either kind or file, not both"),
    ({"file": "none.toml"}, "none.toml: no such file"),
])
def test_bad_systems(table, message):
    with pytest.raises(InputError, match=message):
        EDGE_CLOUDS.make(table)


@pytest.mark.parametrize(("table", "message"), [
    ({"name": "edge-jobs"}, "unknown workload 'edge-jobs' .did you mean 'edge-jobs-300'"),
    ({"format": "edge-jobs", "epoch": 3}, "unknown option of format 'edge-jobs' 'epoch'"),
    ({"format": "edge-listed", "jobs": "a"}, "jobs must be a list of tables, not 'a'"),
    ({"format": "edge-listed", "jobs": [3]}, "jobs must be a list of tables, but holds 3"),
    ({"format": "edge-listed", "jobs": [{}]}, "jobs.0 needs: compute_s"),
    ({"format": "edge-listed", "jobs": [{"compute": 3}]}, "unknown option of jobs.0 'compute'"),
])
def test_bad_jobs(table, message):
    with pytest.raises(InputError, match=message):
        EDGE_JOBS.make(table)


@pytest.mark.parametrize(("read", "text", "message"), [
    (read_edge_cloud, 'kind = "edge-listed"\nworkers = [[1.5]]',
     "edge-cloud 'mine': workers of server 0 must be a list of types, each a name or a number"),
    (read_edge_cloud, 'kind = "edge-servers"\nseed = 5', "seed must not be in a file, but is 5"),
    (read_edge_jobs, 'format = "edge-jobs"\nseed = 5', "seed must not be in a file, but is 5"),
    (read_edge_cloud, "kind = []", "unknown kind of an edge-cloud []"),
])
def test_errors_begin_with_the_file(read, text, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    beside = {"cloud": False} if read is read_edge_cloud else {"name": "x"}
    for options in ({"seed": 3}, beside):
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: "):
            read(path, **options)


def test_an_option_beside_a_file_may_be_to_blame(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('kind = "edge-servers"')
    with pytest.raises(InputError, match=r"^servers must be a whole number"):
        read_edge_cloud(path, servers=-1)


def test_no_toml(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("kind =")
    with pytest.raises(TraceError, match=r"bad.toml: is not TOML"):
        read_edge_cloud(path)
    path.write_text("servers = 3")
    with pytest.raises(InputError, match=r"bad.toml: names no kind; choose from: edge-servers, ed"):
        read_edge_cloud(path)
