"""Sweeps in jobs of submitit, for which its local executor stands: the same results."""

import os

import pytest

import netsim
from netsim.errors import InputError, MissingExtraError
from tests.pairs import exhaustive

pytest.importorskip("submitit")

GRID = {"allocator": ["parrot", "lccf"], "network.capacity": ["10Gbps", "40Gbps"]}
LOCAL = {"cluster": "local", "timeout_min": 10}

# What submitit leaves open when a job has ended is not netsim's.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _found_by_jobs(monkeypatch):
    """Jobs are other processes, which import netsim."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(os.path.dirname(netsim.__file__)))


def tables(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*.csv")}


def test_jobs_give_the_same_bytes_as_this_process(tmp_path):
    """Two jobs of two runs each; a second call has none to do."""
    found = netsim.sweep_experiment("demo", GRID, folder=tmp_path / "jobs",
                                    workers=2, slurm=LOCAL)
    assert (len(found.table), len(found.failures)) == (4, 0)
    netsim.sweep_experiment("demo", GRID, folder=tmp_path / "here")
    assert tables(tmp_path / "jobs") == tables(tmp_path / "here")
    assert len([*(tmp_path / "jobs" / "slurm").glob("*_result.pkl")]) == 2
    again = netsim.sweep_experiment("demo", GRID, folder=tmp_path / "jobs",
                                    workers=2, slurm=LOCAL)
    assert again.table.equals(found.table)
    assert len([*(tmp_path / "jobs" / "slurm").glob("*_result.pkl")]) == 2


@exhaustive
def test_an_executor_of_submitit_gives_the_same_bytes(tmp_path):
    import submitit

    executor = submitit.AutoExecutor(tmp_path / "logs", "local")
    executor.update_parameters(timeout_min=10)
    found = netsim.sweep_experiment("demo", GRID, folder=tmp_path / "jobs", workers=2,
                                    executor=executor)
    assert (len(found.table), len(found.failures)) == (4, 0)
    assert len([*(tmp_path / "logs").glob("*_result.pkl")]) == 2
    netsim.sweep_experiment("demo", GRID, folder=tmp_path / "here")
    assert tables(tmp_path / "jobs") == tables(tmp_path / "here")


class Dies(netsim.Allocator):
    """An allocator that ends the process that asks it."""

    def allocate(self, view):
        """See `netsim.Allocator.allocate`."""
        os._exit(1)


@exhaustive
def test_a_job_that_dies_takes_only_its_own_run_along(tmp_path, monkeypatch):
    """Of one job of two runs, one of which ends it; both are then done in a job each."""
    # How long submitit looks for results that a slow file system may not show yet.
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 1)
    found = netsim.sweep("parrot-fig2", "parrot-fig2", allocator={"dies": Dies(), "well": "lccf"},
                         folder=tmp_path / "s", slurm=LOCAL)
    assert found.table["allocator"].tolist() == ["well"]
    assert found.failures["allocator"].tolist() == ["dies"]


@pytest.mark.parametrize(("slurm", "options", "message"), [
    ({"cluster": "nosuch"}, {}, "slurm: .*nosuch"),
    ({"cluster": "local", "timeout": 3}, {}, "slurm: .*timeout"),
    ({}, {"folder": None}, "slurm: give a folder"),
    ({}, {"dask": "tcp://127.0.0.1:9"}, "either dask or slurm")])
def test_what_cannot_be_is_refused(tmp_path, slurm, options, message):
    with pytest.raises(InputError, match=message):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[0, 1],
                     **{"folder": tmp_path / "s", "slurm": slurm} | options)


def test_submitit_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("netsim.studies.executors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"submitit .*coflow-netsim\[slurm\]"):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[0, 1], folder=tmp_path / "s", slurm=LOCAL)
