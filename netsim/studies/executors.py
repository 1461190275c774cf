"""Executors of a sweep's runs: this process, a pool of processes, those of others, Dask, Slurm."""

from __future__ import annotations

import logging
import math
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import loky

from netsim.base.display import tell_once_by
from netsim.errors import (
    DaskError,
    InputError,
    MissingExtraError,
    NetsimError,
    NetsimWarning,
    described,
)
from netsim.results.result import Result
from netsim.studies.run_store import Files, packed
from netsim.studies.tasks import as_bytes

# --- tasks ---------------------------------------------------------------------------------

#: The time that the runs of one message take together, and the most runs that it holds.
_CHUNK_S, _MOST_IN_CHUNK = 0.5, 16

#: How many chunks wait for each worker, so that none waits for the next.
_AHEAD = 2

#: How often to look after a Dask cluster, and to say that it still has no workers.
_LOOK_S, _REMIND_S = 2.0, 60.0

#: How long to try to reach its scheduler.
_TRY = "10s"


class Task(Protocol):
    """Protocol of a run that can be sent to a worker."""

    def run(self) -> Result:
        """Run it."""


@dataclass(frozen=True)
class Failure:
    """The error of a run that failed."""

    error: str
    details: str = ""  #: the traceback, unless netsim raised the exception on purpose


Outcome = Files | Failure

#: The index and the outcome of each run, in order of completion.
Outcomes = Generator[tuple[int, Outcome], None, None]


def _compute(sent: Sequence[bytes | Failure]) -> tuple[list[Outcome], float]:
    """Compute a chunk of runs: the outcome of each, and the seconds that all of them took."""
    started = time.perf_counter()
    return [_outcome_of(task) for task in sent], time.perf_counter() - started


def _outcome_of(sent: bytes | Failure) -> Outcome:
    if isinstance(sent, Failure):
        return sent
    try:
        task = pickle.loads(sent)
    except Exception as error:  # importing a user's module can raise anything
        return Failure(f"it cannot be read by the process that is to do it: {described(error)}",
                       traceback.format_exc())
    return _outcome(task)


def _sent(task: Task) -> bytes | Failure:
    try:
        return as_bytes(task)
    except Exception as error:  # an object may raise anything when it is pickled
        return Failure(f"it cannot be sent to another process: {described(error)}",
                       traceback.format_exc())


def _outcome(task: Task) -> Outcome:
    try:
        with _muted():
            return packed(task.run())
    except NetsimError as error:
        return Failure(described(error))
    except (Exception, SystemExit) as error:  # a user's policy may raise anything
        return Failure(described(error), traceback.format_exc())


@contextmanager
def _muted() -> Iterator[None]:
    """Silence netsim's warnings, which were shown when the sweep was prepared."""
    if threading.current_thread() is not threading.main_thread():
        yield  # all threads share the filters, so they cannot be restored
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetsimWarning)
        yield


def one_by_one(tasks: Sequence[Task]) -> Outcomes:
    """Compute all runs in this process, one after the other."""
    for place, task in enumerate(tasks):
        yield place, _outcome(task)


# --- processes of this machine ---------------------------------------------------------
def pooled(tasks: Sequence[Task], workers: int) -> Outcomes:
    """Compute all runs in new processes.

    If a process is killed, its runs are repeated one at a time, to find the one that failed.
    """
    waiting = deque(enumerate(tasks))
    suspects: deque[tuple[int, Task]] = deque()
    startable = False
    while waiting or suspects:
        alone = bool(suspects)
        with _processes(1 if alone else workers) as executor:
            if alone and not startable:
                _check_startable(executor)
                startable = True
            window = 1 if alone else _AHEAD * workers
            lost = yield from _drain(suspects if alone else waiting, executor,
                                     partial(int, window), 1 if alone else None)
        if alone and lost:
            place, _ = lost.pop(0)
            yield place, Failure("its process was killed, perhaps for want of memory")
        suspects.extend(lost)


def _check_startable(executor: Executor) -> None:
    """Check that the processes of an executor can be started."""
    try:
        executor.submit(int).result()
    except BrokenExecutor as error:
        raise InputError("worker processes cannot be started here; their output says "
                         "why. Use workers=1") from error


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Yield a pool of processes that stops, and removes its temporary files, on an interruption.

    Its processes do not import the calling script, which would repeat all of its work.
    """
    # A process that holds much more memory than at first ends by itself; another takes its place.
    warnings.filterwarnings("ignore", "A worker was restarted while", UserWarning)
    context = loky.backend.get_context("loky")
    end, held = context.Pipe(duplex=False)
    with (end, held,
          tempfile.TemporaryDirectory(prefix="netsim-", ignore_cleanup_errors=True) as scratch):
        executor = loky.ProcessPoolExecutor(workers, context=context, initializer=_begin_worker,
                                            initargs=(scratch, end))
        try:
            yield executor
        except BaseException:
            executor.shutdown(kill_workers=True)
            raise
        executor.shutdown()


def _begin_worker(scratch: str, end: Connection) -> None:
    tempfile.tempdir = scratch  # a killed process does not clean up
    tell_once_by(Path(scratch) / "told")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and ends it
    threading.Thread(target=_end_with_parent, args=(end,), daemon=True).start()


def _end_with_parent(end: Connection) -> None:
    """End this process when its parent has ended, as a killed parent does not stop its children."""
    with suppress(EOFError, OSError):
        end.recv()  # nothing is ever sent: the other side is closed when the parent has gone
    os._exit(1)


# --- executors of others ---------------------------------------------------------------
class ExecutorError(NetsimError, BrokenExecutor):
    """An executor of the user broke, or takes no calls."""


def on_executor(tasks: Sequence[Task], executor: Any, jobs: int, key: str = "executor"
                ) -> Outcomes:
    """Compute all runs with an executor of the user.

    One of `concurrent.futures` gets all runs at once, each in a call of its own. One of submitit
    gets a number of jobs, which share the runs; if a job fails or is cancelled, each of its runs is
    repeated in its own job. The executor is not shut down, but calls that have not begun are
    cancelled on an interruption. If it breaks, the error names `key`.
    """
    is_futures = isinstance(executor, Executor)
    size = 1 if is_futures else -(-len(tasks) // jobs)
    waiting = deque(enumerate(tasks))
    with (_muted(), nullcontext() if is_futures else ThreadPoolExecutor(len(tasks)) as threads):
        begun = _Begun(executor, threads)
        try:
            lost = yield from _drain(waiting, begun, partial(int, len(tasks)), size)
        except (CancelledError, OSError, RuntimeError) as error:
            raise ExecutorError(f"{key}: {described(error)}") from error
        finally:
            begun.cancel()
    if lost or waiting:
        raise ExecutorError(f"{key}: it is broken, as when one of its processes is killed")


class _Begun(Executor):
    """An executor that can cancel its calls; threads wait for those that are jobs of submitit."""

    def __init__(self, executor: Any, threads: ThreadPoolExecutor | None) -> None:
        self._executor, self._threads = executor, threads
        self._calls: set[Any] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call; see `concurrent.futures.Executor.submit`."""
        call = self._executor.submit(fn, *args, **kwargs)
        self._calls.add(call)
        # What has ended is dropped, as it holds a result; its callback must not refer to it.
        if self._threads is None:
            call.add_done_callback(self._calls.discard)
            return call
        waits = self._threads.submit(call.result)
        waits.add_done_callback(lambda _: self._calls.discard(call))
        return waits

    def cancel(self) -> None:
        """Cancel the calls that have not ended."""
        for call in [*self._calls]:
            if not call.done():
                call.cancel()


def check_executor(executor: Any) -> None:
    """Check that an object is an executor of `concurrent.futures` or of submitit."""
    submitit = sys.modules.get("submitit")  # without it, the object is none of its executors
    if not isinstance(executor, (Executor, submitit.core.core.Executor) if submitit else Executor):
        raise InputError("executor: give an executor of concurrent.futures, such as "
                         f"client.get_executor() of Dask, or one of submitit, not {executor!r}")


def on_dask(tasks: Sequence[Task], scheduler: str) -> Outcomes:
    """Compute all runs on a Dask cluster.

    `scheduler` is the address of the Dask scheduler, such as ``"tcp://10.0.0.1:8786"``. Dask itself
    repeats the runs of a worker that is lost. DaskError is raised if the connection is lost.
    """
    if find_spec("distributed") is None:
        raise MissingExtraError("dask.distributed", "dist")
    from distributed import Client

    try:
        client = Client(scheduler, timeout=_TRY, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(f"scheduler: there is no Dask scheduler at {scheduler!r}: {error}"
                         ) from error
    with client:
        executor = client.get_executor(pure=False)
        try:
            yield from _drain(deque(enumerate(tasks)), executor, _Cores(client, scheduler).window,
                              None, _LOOK_S)
        except (CancelledError, OSError) as error:
            _close_quietly(client)
            raise DaskError(f"the Dask scheduler at {scheduler!r} has gone") from error


def _close_quietly(client: Any) -> None:
    """Close a client whose scheduler is gone, without Dask's log messages."""
    log = logging.getLogger("distributed.client")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        client.close()
    finally:
        log.setLevel(before)


class _Cores:
    """A monitor of a Dask cluster: whether it is reachable, and how many cores it has."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._cores = 0
        self._looked_s = self._reminded_s = -math.inf
        self._alone_s = time.monotonic()

    def window(self) -> int:
        """Count the chunks to keep submitted; warn if there are no workers.

        OSError is raised if the scheduler cannot be reached.
        """
        if self._client.status != "running":
            raise ConnectionError(f"its client is {self._client.status}")
        now = time.monotonic()
        if now >= self._looked_s + _LOOK_S:
            self._looked_s = now
            self._cores = sum(self._client.ncores().values())
            if self._cores:
                self._alone_s, self._reminded_s = now, -math.inf
            elif now >= self._reminded_s + _REMIND_S:
                self._reminded_s = now
                self._warn(round(now - self._alone_s))
        return _AHEAD * max(self._cores, 1)

    def _warn(self, seconds: int) -> None:
        since = f", for {seconds} s now" if seconds >= _REMIND_S else ""
        warnings.warn(NetsimWarning(
            f"the Dask scheduler at {self._address!r} has no workers{since}; the sweep waits for "
            f"one (`dask worker {self._address}` starts one; Ctrl-C ends the sweep)"), stacklevel=2)


def on_slurm(tasks: Sequence[Task], jobs: int, options: Mapping[str, Any], folder: Path
             ) -> Outcomes:
    """Compute all runs in a number of jobs of Slurm; see `on_executor`.

    `options` are those of `submitit.AutoExecutor.update_parameters`, and ``cluster``, the executor
    of submitit, ``"slurm"`` by default. `folder`, for tasks and logs, must be on a file system that
    all machines share.
    """
    if find_spec("submitit") is None:
        raise MissingExtraError("submitit", "slurm")
    import submitit

    given = dict(options)
    try:
        executor = submitit.AutoExecutor(folder, given.pop("cluster", "slurm"))
        executor.update_parameters(**given)
    except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"slurm: {error}") from error
    return on_executor(tasks, executor, jobs, "slurm")


# --- what all share -------------------------------------------------------------------
def _drain(waiting: deque[tuple[int, Task]], executor: Executor, window: Callable[[], int],
           size: int | None, look_s: float | None = None
           ) -> Generator[tuple[int, Outcome], None, list[tuple[int, Task]]]:
    """Submit all waiting tasks in chunks of `size`, yield outcomes, and return unfinished tasks.

    Tasks are unfinished if the executor broke. `window` returns the number of chunks to keep
    submitted; it is called before the first, and every `look_s` seconds or, without these, whenever
    a chunk is done. Without a size, a chunk has as many runs as take half a second. If the
    connection to the executor is lost, CancelledError or OSError is raised.
    """
    pending: dict[Future[Any], list[tuple[int, Task]]] = {}
    alone: deque[tuple[int, Task]] = deque()
    taken = runs = 0.0
    while waiting or alone or pending:
        most = window()
        try:
            while (waiting or alone) and len(pending) < most:
                count = size or (1 if not runs else int(
                    min(max(_CHUNK_S * runs / max(taken, 1e-9), 1), _MOST_IN_CHUNK)))
                chunk = ([alone.popleft()] if alone else
                         [waiting.popleft() for _ in range(min(count, len(waiting)))])
                pending[executor.submit(_compute, [_sent(task) for _, task in chunk])] = chunk
        except BrokenExecutor:
            waiting.extendleft(reversed(chunk))
            if not pending:
                return []
        done, _ = wait(pending, look_s, FIRST_COMPLETED)
        for future in sorted(done, key=lambda future: _error_of(future) is not None):
            error = _error_of(future)
            if isinstance(error, BrokenExecutor):
                return [each for chunk in pending.values() for each in chunk] + list(alone)
            if isinstance(error, CancelledError | OSError):
                raise error
            chunk = pending.pop(future)
            if error is not None and len(chunk) > 1:  # one of them took its worker down
                alone.extend(chunk)
                continue
            outcomes, seconds = _result_of(future, len(chunk))
            taken, runs = taken + seconds, runs + len(chunk)
            yield from zip((place for place, _ in chunk), outcomes, strict=True)
    return []


def _error_of(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception()
    except CancelledError as error:  # the cluster has gone
        return error


def _result_of(future: Future[Any], count: int) -> tuple[list[Outcome], float]:
    if (error := _error_of(future)) is not None:
        return [Failure(described(error))] * count, 0.0
    result: tuple[list[Outcome], float] = future.result()
    return result
