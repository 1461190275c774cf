"""Sweeps on a Dask cluster that the tests start: the same results, whatever becomes of workers."""

import os
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

import netsim
from netsim.errors import DaskError, InputError, NetsimWarning
from tests.pairs import exhaustive

ROOT = Path(netsim.__file__).parent.parent


GRID = {"allocator": ["parrot", "lccf", "aalo-lbsf"], "network.capacity": ["10Gbps", "40Gbps"]}

# What Dask itself warns of as it starts and ends processes is not netsim's.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("distributed")]


@pytest.fixture(scope="module")
def distributed():
    """Skip all tests where Dask is not installed; collecting them does not load it."""
    return pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(distributed):
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


@exhaustive
def test_the_executor_of_a_client_gives_the_same_bytes(cluster, tmp_path, distributed):
    with distributed.Client(cluster) as client:
        found = netsim.sweep_experiment("demo", GRID, folder=tmp_path / "cluster",
                                        executor=client.get_executor())
    assert (len(found.table), len(found.failures)) == (6, 0)
    netsim.sweep_experiment("demo", GRID, folder=tmp_path / "here")
    assert tables(tmp_path / "cluster") == tables(tmp_path / "here")


@exhaustive
def test_a_worker_that_is_killed_in_the_middle_costs_nothing(cluster, tmp_path, distributed):
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


SCRIPT = """
import netsim

PART = 0.5

class Slowed(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(shares=view.greedy(list(range(len(view)))) * PART)

found = netsim.sweep("parrot-fig2", "parrot-fig2", allocator=[Slowed()],
                     seed=range(2), dask={address!r})
assert not len(found.failures), found.failures["error"].tolist()
print(*found.table["jct_total_s"])
"""


@exhaustive
def test_a_policy_of_a_script_goes_to_the_workers(cluster, tmp_path):
    """At half the rates everything takes twice as long."""
    script = tmp_path / "script.py"
    totals = []
    for part in ("1.0", "0.5"):
        script.write_text(SCRIPT.format(address=cluster.scheduler_address)
                          .replace("PART = 0.5", f"PART = {part}"))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
        assert done.returncode == 0, done.stderr
        totals.append([float(word) for word in done.stdout.split()])
    assert totals[1] == pytest.approx([2 * total for total in totals[0]])


def test_no_scheduler_there(tmp_path, monkeypatch):
    monkeypatch.setattr("netsim.studies.executors._TRY", "1s")
    with pytest.raises(InputError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'"):
        netsim.sweep_experiment("demo", GRID, dask="tcp://127.0.0.1:9",
                                folder=tmp_path / "s")
    assert netsim.load_sweep(tmp_path / "s").missing == 6


# --- schedulers that go, and workers that do not come --------------------------------------


@contextmanager
def process(*arguments):
    """A process of Dask's, which is killed at the end with those that it has started."""
    started = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_" + arguments[0],
                                *arguments[1:], "--no-dashboard"], start_new_session=True,
                               env=os.environ | {"PYTHONPATH": str(ROOT)},
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@pytest.fixture
def scheduler(tmp_path, distributed):
    """A scheduler without workers: its process, and its address."""
    file = tmp_path / "scheduler.json"
    with process("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file",
                 str(file)) as started:
        with distributed.Client(scheduler_file=str(file), timeout="60s") as client:
            address = client.scheduler.address
        yield started, address


def worker(address):
    return process("worker", address, "--nthreads", "1", "--nworkers", "1")


GONE = r"the Dask scheduler at '{}' has gone; {} of 12 runs had ended and are kept in .*; the same "


@exhaustive
def test_a_scheduler_that_is_killed_ends_the_sweep_and_a_second_call_goes_on(scheduler, tmp_path):
    process, address = scheduler

    def kill(done, failed, total):
        if done == 3:
            process.kill()

    with worker(address), pytest.raises(DaskError, match=GONE.format(address, r"\d+")):
        netsim.sweep_experiment("demo", GRID, seeds=2, folder=tmp_path / "s", dask=address,
                                progress=kill)
    there = netsim.load_sweep(tmp_path / "s")
    assert 3 <= len(there.table) < 12
    assert len(there.failures) == 0
    netsim.sweep_experiment("demo", GRID, seeds=2, folder=tmp_path / "s")
    netsim.sweep_experiment("demo", GRID, seeds=2, folder=tmp_path / "here")
    assert tables(tmp_path / "s") == tables(tmp_path / "here")


@contextmanager
def on_warning(do):
    """Do something when netsim first warns; give what it says."""
    said = []

    def heard(message, *_, **__):
        said.append(str(message))
        if len(said) == 1:
            do()

    with warnings.catch_warnings():
        warnings.simplefilter("always", NetsimWarning)
        warnings.showwarning = heard
        yield said


@exhaustive
def test_without_workers_it_says_so_and_waits_for_one(scheduler, tmp_path):
    _, address = scheduler
    come = worker(address)
    with on_warning(come.__enter__) as said:
        found = netsim.sweep_experiment("demo", GRID, seeds=1, dask=address)
    come.__exit__(None, None, None)
    assert said[0] == (f"the Dask scheduler at {address!r} has no workers; the sweep waits for one "
                       f"(`dask worker {address}` starts one; Ctrl-C ends the sweep)")
    assert len(found.table) == 6


@exhaustive
def test_a_scheduler_that_is_killed_before_a_worker_comes(scheduler, tmp_path):
    process, address = scheduler
    with on_warning(process.kill), pytest.raises(DaskError, match=r"has gone; no run had ended$"):
        netsim.sweep_experiment("demo", GRID, seeds=2, folder=tmp_path / "s", dask=address)
