"""Sweeps on a Dask cluster that the tests start: the same results, whatever becomes of workers."""

import os
import signal

import pytest

import netsim
from netsim.errors import InputError

distributed = pytest.importorskip("distributed")

GRID = {"allocator": ["parrot", "lccf", "aalo-lbsf"], "network.capacity": ["10Gbps", "40Gbps"]}

# What Dask itself warns of as it starts and ends processes is not netsim's.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                                  dashboard_address=None, silence_logs=50) as cluster:
        cluster.wait_for_workers(2)
        yield cluster


def tables(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*.csv")}


def test_a_cluster_gives_the_same_bytes_as_this_machine(cluster, tmp_path):
    found = netsim.sweep_experiment("demo", GRID, seeds=2, folder=tmp_path / "cluster",
                                    dask=cluster.scheduler_address)
    assert (len(found.table), len(found.failures)) == (12, 0)
    netsim.sweep_experiment("demo", GRID, seeds=2, folder=tmp_path / "here")
    assert tables(tmp_path / "cluster") == tables(tmp_path / "here")


def test_a_worker_that_is_killed_in_the_middle_costs_nothing(cluster, tmp_path):
    with distributed.Client(cluster) as client:
        victims = list(client.run(os.getpid).values())
    killed = []

    def kill_one(done, failed, total):
        if done == 2:
            os.kill(victims[0], signal.SIGKILL)
            killed.append(victims[0])

    found = netsim.sweep_experiment("demo", GRID, seeds=3, folder=tmp_path / "cluster",
                                    dask=cluster.scheduler_address, progress=kill_one)
    assert killed
    assert (len(found.table), len(found.failures)) == (18, 0)
    netsim.sweep_experiment("demo", GRID, seeds=3, folder=tmp_path / "here")
    assert tables(tmp_path / "cluster") == tables(tmp_path / "here")


def test_no_scheduler_there(tmp_path):
    with pytest.raises(InputError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'"):
        netsim.sweep_experiment("demo", GRID, dask="tcp://127.0.0.1:9",
                                folder=tmp_path / "s")
    assert netsim.load_sweep(tmp_path / "s").missing == 6
