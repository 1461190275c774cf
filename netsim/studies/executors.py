"""Executors of a sweep's runs: this process, a pool of processes, a Dask cluster, or Slurm."""

from __future__ import annotations

import logging
import math
import os
import pickle
import signal
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
from contextlib import contextmanager, suppress
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NetsimWarning)  # said when the sweep was prepared
            return packed(task.run())
    except NetsimError as error:
        return Failure(described(error))
    except (Exception, SystemExit) as error:  # a user's policy may raise anything
        return Failure(described(error), traceback.format_exc())


def one_by_one(tasks: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
    """Compute all runs in this process; yield the index and the outcome of each."""
    for place, task in enumerate(tasks):
        yield place, _outcome(task)


# --- processes of this machine ---------------------------------------------------------
def pooled(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, Outcome]]:
    """Compute all runs in new processes; yield as `one_by_one` does, in order of completion.

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


# --- other machines --------------------------------------------------------------------
def on_dask(tasks: Sequence[Task], scheduler: str) -> Iterator[tuple[int, Outcome]]:
    """Compute all runs on a Dask cluster; yield as `pooled` does.

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
             ) -> Iterator[tuple[int, Outcome]]:
    """Compute all runs in a number of jobs of Slurm; yield as `pooled` does.

    If a job fails or is cancelled, each of its runs is repeated in its own job. `options` are those
    of `submitit.AutoExecutor.update_parameters`, and ``cluster``, the executor of submitit,
    ``"slurm"`` by default. `folder`, for tasks and logs, must be on a file system that all machines
    share.
    """
    if find_spec("submitit") is None:
        raise MissingExtraError("submitit", "slurm")
    import submitit

    given = dict(options)
    try:
        jobs_of = submitit.AutoExecutor(folder, given.pop("cluster", "slurm"))
        jobs_of.update_parameters(**given)
    except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"slurm: {error}") from error
    size = -(-len(tasks) // jobs)
    with ThreadPoolExecutor(len(tasks)) as threads:
        executor = _Jobs(jobs_of, threads)
        try:
            yield from _drain(deque(enumerate(tasks)), executor, partial(int, len(tasks)), size)
        finally:
            executor.cancel()


class _Jobs(Executor):
    """An executor whose calls are jobs of a cluster, each of which a thread waits for."""

    def __init__(self, jobs: Any, threads: ThreadPoolExecutor) -> None:
        self._jobs, self._threads = jobs, threads
        self._begun: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a job; see `concurrent.futures.Executor.submit`."""
        job = self._jobs.submit(fn, *args, **kwargs)
        self._begun.append(job)
        return self._threads.submit(job.result)

    def cancel(self) -> None:
        """Cancel the jobs that have not ended."""
        for job in self._begun:
            if not job.done():
                job.cancel()


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
