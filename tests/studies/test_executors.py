"""Sweeps with executors of `concurrent.futures`: the same results, and nothing is lost."""

import gc
import multiprocessing
import os
import threading
import warnings
import weakref
from collections import deque
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)

import pytest

import netsim
from netsim.errors import InputError, NetsimError
from tests.pairs import exhaustive

GRID = {"allocator": ["parrot", "lccf"], "network.capacity": ["10Gbps", "40Gbps"]}


def processes(count):
    """Return an executor whose processes begin afresh, as those of other machines do."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))


def tables(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*.csv")}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Return the tables of a sweep in this process."""
    folder = tmp_path_factory.mktemp("here") / "s"
    netsim.sweep_experiment("demo", GRID, folder=folder)
    return tables(folder)


@pytest.mark.parametrize("make", [ThreadPoolExecutor, pytest.param(processes, marks=exhaustive)])
def test_an_executor_gives_the_same_bytes_as_this_process(make, here, tmp_path):
    """It is not shut down, so it serves for several sweeps."""
    with make(2) as executor:
        for folder in ("one", "two"):
            netsim.sweep_experiment("demo", GRID, folder=tmp_path / folder, executor=executor)
            assert tables(tmp_path / folder) == here


class Held(Executor):
    """Computes its first call, and then only takes calls."""

    def __init__(self):
        self.calls = []

    def submit(self, fn, /, *args, **kwargs):
        """See `concurrent.futures.Executor.submit`."""
        self.calls.append(Future())
        if len(self.calls) == 1:
            self.calls[0].set_result(fn(*args, **kwargs))
        return self.calls[-1]


def interrupt(done, failed, total):
    raise KeyboardInterrupt


def test_an_interruption_cancels_what_has_not_begun_and_keeps_the_rest(here, tmp_path):
    executor = Held()
    with pytest.raises(netsim.errors.Interrupted, match="1 of 4 runs had ended and are kept in"):
        netsim.sweep_experiment("demo", GRID, folder=tmp_path / "s", executor=executor,
                                progress=interrupt)
    assert [call.cancelled() for call in executor.calls] == [False, True, True, True]
    assert len(netsim.load_sweep(tmp_path / "s").table) == 1
    netsim.sweep_experiment("demo", GRID, folder=tmp_path / "s")
    assert tables(tmp_path / "s") == here


class Breaks(Held):
    """Breaks after its first call, as when a process is killed."""

    def __init__(self, at_once):
        super().__init__()
        self.at_once = at_once

    def submit(self, fn, /, *args, **kwargs):
        """See `concurrent.futures.Executor.submit`."""
        if self.calls and self.at_once:
            raise BrokenExecutor
        call = super().submit(fn, *args, **kwargs)
        if len(self.calls) > 1:
            call.set_exception(BrokenExecutor())
        return call


@pytest.mark.parametrize("at_once", [False, True])
def test_a_broken_executor_ends_the_sweep_and_a_second_call_goes_on(at_once, here, tmp_path):
    with pytest.raises(BrokenExecutor, match="executor: it is broken, as when one of its processes "
                                             "is killed; 1 of 4 runs had ended and are kept in"):
        netsim.sweep_experiment("demo", GRID, folder=tmp_path / "s", executor=Breaks(at_once))
    assert len(netsim.load_sweep(tmp_path / "s").table) == 1
    netsim.sweep_experiment("demo", GRID, folder=tmp_path / "s")
    assert tables(tmp_path / "s") == here


def test_an_executor_that_takes_no_calls_is_an_error_of_netsim():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(NetsimError, match=r"executor: RuntimeError: .* after shutdown; no run had"):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[0, 1], executor=executor)


class OneByOne(Executor):
    """Computes the next call when it is told to, and does not keep it."""

    def __init__(self):
        self.waiting, self.alive = deque(), weakref.WeakSet()

    def submit(self, fn, /, *args, **kwargs):
        """See `concurrent.futures.Executor.submit`."""
        call = Future()
        self.alive.add(call)
        self.waiting.append((call, fn, args))
        if len(self.alive) == 1:
            self.compute()
        return call

    def compute(self):
        """Compute the next call, if there is one."""
        if self.waiting:
            call, fn, args = self.waiting.popleft()
            call.set_result(fn(*args))


def test_results_that_are_stored_are_not_kept_in_memory():
    """At the end of each run, those that wait are there, and that one."""
    executor, alive = OneByOne(), []

    def progress(done, failed, total):
        alive.append(len(executor.alive))
        executor.compute()

    gc.disable()  # they are not in circles that only it would free
    try:
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=range(4), executor=executor,
                     progress=progress)
    finally:
        gc.enable()
    assert alive[0] == 4
    assert alive[-1] < 3


def test_warnings_are_shown_once_where_runs_are_threads(recwarn):
    class Warns(netsim.Allocator):
        def allocate(self, view):
            warnings.warn(netsim.errors.NetsimWarning("said in a run"), stacklevel=1)
            return netsim.Allocation(order=view.total.argsort())

    with ThreadPoolExecutor(2) as executor:
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[0, 1], allocator=[Warns()],
                     executor=executor)
    assert not [each for each in recwarn if "said in a run" in str(each.message)]


class Dies(netsim.Allocator):
    """An allocator that ends the process that asks it."""

    def allocate(self, view):
        """See `netsim.Allocator.allocate`."""
        os._exit(1)


@exhaustive
def test_a_run_that_kills_its_process_breaks_the_executor():
    with processes(1) as executor, pytest.raises(BrokenExecutor, match="no run had ended"):
        netsim.sweep("parrot-fig2", "parrot-fig2", allocator=[Dies()], executor=executor)


def test_a_policy_that_fails_is_a_failure_with_its_own_error():
    class Fails(netsim.Allocator):
        def allocate(self, view):
            raise ValueError(f"in {threading.current_thread().name}")

    with ThreadPoolExecutor(1, "the pool") as executor:
        found = netsim.sweep("parrot-fig2", "parrot-fig2", executor=executor,
                             allocator={"fails": Fails(), "well": "lccf"})
    assert found.table["allocator"].tolist() == ["well"]
    assert found.failures["error"].str.contains("in the pool").tolist() == [True]


@pytest.mark.parametrize(("options", "message"), [
    ({"executor": "processes"}, "give an executor of concurrent.futures, .* not 'processes'"),
    ({"executor": Held(), "dask": "tcp://127.0.0.1:9"}, "either executor, or dask or slurm"),
    ({"executor": Held(), "slurm": {}, "folder": "s"}, "either executor, or dask or slurm")])
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[0, 1], **options)
