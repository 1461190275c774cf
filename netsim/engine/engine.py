"""The engine of jobs, which arrive, get GPUs from a scheduler, run, and lose or return them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import simpy
from netsim.base.values import Known
from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.context import RunContext
from netsim.engine.executions import Execution, TimedExecution
from netsim.engine.ledger import JobAccounts, Ledger, Segment, estimates_of
from netsim.engine.preemption import Preemption
from netsim.engine.view import (
    ClusterView,
    Saving,
    Scheduler,
    ask,
    check_form,
    check_moved,
    check_preemption,
    check_start,
)
from netsim.errors import AllocationError, StalledError
from netsim.fabric.clock import DECISIONS, call_at, call_last
from netsim.jobs.arrivals import Arrivals
from netsim.placements.placement import FirstFit, Placement
from netsim.ties import is_now
from netsim.workload import JobSpec


# --- the GPUs ------------------------------------------------------------------------------
class GpuPool:
    """The free and the lost GPUs of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.free = np.ones(cluster.total, np.bool_)  #: those of lost servers are not free
        self.free_on = cluster.gpus.copy()  #: number of free GPUs, by server
        self.idle = cluster.total  #: number of all free GPUs
        self.load = np.zeros(cluster.total)  #: seconds of work promised so far, by GPU
        self.lost: dict[int, None] = {}  #: servers that are lost at present

    def take(self, gpus: Ints) -> None:
        """Take free GPUs."""
        self._mark(gpus, -1)

    def give_back(self, gpus: Ints) -> None:
        """Free GPUs, except those of lost servers."""
        if self.lost:
            gpus = gpus[~np.isin(self._cluster.server_of[gpus], list(self.lost))]
        self._mark(gpus, 1)

    def lose(self, server: int) -> None:
        """Withdraw a server: its free GPUs are not given to jobs; jobs keep those they hold."""
        own = self._of(server)
        self._mark(own[self.free[own]], -1)
        self.lost[server] = None

    def repair(self, server: int, held: Ints) -> bool:
        """Make the GPUs of a server free again, except held ones; return whether it was lost."""
        if server not in self.lost:
            return False
        del self.lost[server]
        self._mark(np.setdiff1d(self._of(server), held), 1)
        return True

    def _of(self, server: int) -> Ints:
        return np.arange(self._cluster.first[server], self._cluster.first[server + 1])

    def _mark(self, gpus: Ints, sign: int) -> None:
        """Mark GPUs as free (sign 1) or as taken (sign -1)."""
        self.free[gpus] = sign > 0
        self.idle += sign * len(gpus)
        if len(gpus) == 1:
            self.free_on[self._cluster.server_of[gpus[0]]] += sign
        else:
            np.add.at(self.free_on, self._cluster.server_of[gpus], sign)


class Members:
    """A set of numbers as an array, in no particular order."""

    def __init__(self) -> None:
        self._numbers = np.zeros(16, np.int64)
        self._place: dict[int, int] = {}

    @property
    def array(self) -> Ints:
        """The members; read-only."""
        return read_only(self._numbers[:len(self._place)])

    def add(self, number: int) -> None:
        """Add a number that is not a member."""
        place = len(self._place)
        if place == len(self._numbers):
            self._numbers = np.concatenate((self._numbers, np.zeros(place, np.int64)))
        self._numbers[place] = number
        self._place[number] = place

    def remove(self, number: int) -> None:
        """Remove a member; the last one takes its place."""
        place, last = self._place.pop(number), len(self._place)
        if place != last:
            moved = int(self._numbers[last])
            self._numbers[place] = moved
            self._place[moved] = place


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make a read-only view of an array."""
    view = array.view()
    view.setflags(write=False)
    return view


# --- the engine ----------------------------------------------------------------------------

#: Successive wakes after which the engine checks whether other events will happen.
_IN_VAIN = 100_000

#: Largest multiple of the time of these wakes by which the next other event may be away.
_ENDLESS = 10_000

#: Preemptions of a job in a row that keep nothing, after which a run is taken to be endless.
_THRASHES = 1000


class Engine:
    """Runs jobs from their arrival to their end.

    A job waits, gets GPUs, restores its earlier progress, runs and ends. If a scheduler preempts
    it, or it loses a server, it waits again. Jobs are in order of (arrival, id). The placement is
    for schedulers that do not choose GPUs themselves; `name` is that of the scheduler in errors.
    """

    def __init__(self, env: simpy.Environment, cluster: Cluster, jobs: Sequence[JobSpec],
                 scheduler: Scheduler, execution: Execution, placement: Placement | None = None,
                 name: str | None = None, options: Preemption | None = None) -> None:
        for job in jobs:
            check_size(job, cluster)
        self._env, self._cluster, self._jobs = env, cluster, jobs
        self._scheduler, self._execution = scheduler, execution
        self._name = name or type(scheduler).__name__
        self._placement, self._options = placement or FirstFit(), options or Preemption()
        self._pool = GpuPool(cluster)
        self._pending: dict[int, None] = {}
        self._running: dict[int, Ints] = {}
        self._holding = Members()
        self._saving: dict[int, Saving] = {}
        self._moving: dict[int, tuple[int, Ints]] = {}  # state: its source, and the job's old GPUs
        self._estimates = read_only(estimates_of(jobs))
        self._arrived: list[int] = []
        self._left: list[int] = []
        self._asked, self._alarm = False, 0
        self._in_vain, self._in_vain_since = 0, env.now
        self._asks_on = False
        self.ledger = Ledger(jobs)
        self._accounts = JobAccounts(env, self.ledger, execution, self._options, cluster, jobs)
        self.arrived = self.ended = 0  #: numbers of jobs; the first `arrived` jobs have arrived
        self.decided_s = env.now  #: instant of the scheduler's last decision
        #: GPUs of each job that has started; the most recent ones if it was restarted.
        self.gpus: dict[int, Ints] = Known()
        #: Called with the kind of each event, such as ``"job-done"``, and the index of the job.
        self.notify: Callable[[str, int], None] | None = None
        self._arrivals = Arrivals(env, [job.arrival_s for job in jobs], self._arrive)

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Insert a job that has not arrived; the numbers of later jobs grow by one.

        `jobs` are all jobs, including this one.
        """
        check_size(jobs[job], self._cluster)
        self._jobs = jobs
        self._estimates = read_only(estimates_of(jobs))
        self.ledger.add_job(job, jobs)
        self._accounts.set_jobs(jobs)
        self._execution.add_job(job, jobs)
        self._arrivals.add(job, jobs[job].arrival_s)

    @property
    def start_s(self) -> Floats:
        """First start of each job, in seconds; NaN before."""
        return self.ledger.rows["first_start"]

    @property
    def end_s(self) -> Floats:
        """End of each job, in seconds; NaN before."""
        return self.ledger.rows["end"]

    # --- the life of a job ----------------------------------------------------------------

    def _notify(self, what: str, job: int) -> None:
        if self.notify is not None:
            self.notify(what, job)

    def _arrive(self, job: int) -> None:
        self.arrived += 1
        self._wait(job)
        self._notify("job-arrived", job)

    def _wait(self, job: int) -> None:
        """Queue a job for GPUs, and ask the scheduler."""
        self._pending[job] = None
        self.ledger.rows["waits_since"][job] = self._env.now
        self._arrived.append(job)
        self._ask()

    def _start(self, job: int, gpus: Ints, others: Sequence[Ints]) -> None:
        """Give a job its GPUs; it runs as soon as it has restored its earlier progress.

        `others` are the GPUs of jobs that start after it.
        """
        now, pool = self._env.now, self._pool
        check_start(self._name, job, gpus, self._jobs, self._cluster, self._pending,
                    self._saving, pool.free, bool(pool.lost), self._execution.sizes)
        if self._execution.prefers and job not in self.gpus:
            kept = np.setdiff1d(np.concatenate([gpus[:0], *others]), gpus)
            free = pool.free & ~np.isin(np.arange(len(pool.free)), kept)
            gpus = self._execution.prefer(job, gpus, free)
        del self._pending[job]
        pool.take(gpus)
        pool.load[gpus] += self._promise(job)
        self._running[job] = gpus
        self._holding.add(job)
        segment = self.ledger.take(job, gpus, now)
        self._bring(segment, self.ready_on(job, gpus))
        self.gpus[job] = gpus
        self._notify("job-started", job)

    def _promise(self, job: int) -> float:
        """The estimated seconds of a job; for a preempted job, less the seconds it ran.

        If iterations were used, the load would reveal to schedulers how many are left.
        """
        rows = self.ledger.rows
        ran_s = rows["run_s"][job] if rows["preemptions"][job] else 0.0
        return max(float(self._estimates[job] - ran_s), 0.0)

    def _bring(self, segment: Segment, ready: float) -> None:
        """Bring what a job needs to its servers; `ready` is when it should run, as far as known."""
        job, rows = segment.job, self.ledger.rows
        rows["ready"][job] = ready
        if self._execution.fetch(job, segment.gpus, partial(self._moved, segment)):
            rows["ready"][job], rows["expected"][job] = math.inf, ready
        elif ready == math.inf:
            nbytes, _, new = self._to_move(job, self.gpus[job], segment.gpus)
            self._send_state(segment, self.gpus[job], np.full(len(new), nbytes))
        else:
            segment.there = self._execution.data_on(job, segment.gpus)
            self._run_at(ready, segment)

    def _send_state(self, segment: Segment, before: Ints, nbytes: Floats) -> None:
        """Move state to the servers that are new to a job with GPUs `before`, then restore it."""
        job = segment.job
        _, source, new = self._to_move(job, before, segment.gpus)
        if source is None:
            self._moved(segment, float(nbytes.max()) / self._cluster.nic)
        else:
            self._moving[job] = source, before
            self._execution.send_state(job, nbytes, source, new, partial(self._moved, segment))

    def _to_move(self, job: int, before: Ints, gpus: Ints) -> tuple[float, int | None, Ints]:
        """The size of a job's state, the server that has it, and the servers that need it.

        If all servers that had it are lost, it comes from storage outside of the cluster: None.
        """
        own, server_of = self._jobs[job].state_bytes, self._cluster.server_of
        if not (self._options.state_bytes if own is None else own):
            return 0.0, None, before[:0]
        old, new = np.unique(server_of[before]), np.unique(server_of[gpus])
        live = [server for server in old.tolist() if server not in self.lost]
        return (self._options.state_bytes if own is None else own, live[0] if live else None,
                new[~np.isin(new, old)])

    def ready_on(self, job: int, gpus: Ints) -> float:
        """When a job would make progress on GPUs if it got them now, in seconds.

        It is inf if the state of the job would first move over a simulated network, which takes a
        time that is not known.
        """
        before = self.gpus.get(job)
        data = self._execution.data_on(job, gpus)
        if before is None or not self.ledger.rows["kept"][job]:
            return data
        wait = self._options.restore_s
        if len(before) and len(gpus):
            nbytes, source, new = self._to_move(job, before, gpus)
            if nbytes and len(new):
                if self._execution.sends_state and source is not None:
                    return math.inf
                wait += nbytes / self._cluster.nic
        return self._then(wait, data)

    def _then(self, wait: float, since: float) -> float:
        """The instant at which jobs may start, some time after another instant."""
        ready = since + wait
        return self._execution.next_start(ready) if wait else ready

    def _moved(self, segment: Segment, after_s: float = 0.0) -> None:
        """Restore a job once its data or state has arrived, now or after a time that is known."""
        rows, job = self.ledger.rows, segment.job
        self._moving.pop(job, None)
        segment.there = self._env.now + after_s
        expected, rows["expected"][job] = rows["expected"][job], math.nan
        wait = self._options.restore_s if rows["kept"][job] else 0.0
        ready = rows["ready"][job] = self._then(wait, segment.there)
        self._run_at(ready, segment)
        if not is_now(expected, ready):  # otherwise there is nothing new to decide
            self._ask()

    def _run_at(self, ready: float, segment: Segment) -> None:
        if ready > self._env.now:
            call_at(self._env, ready, partial(self._run, segment))
        else:
            self._run(segment)

    def _run(self, segment: Segment, _: Any = None, *, delayed: bool = False) -> None:
        """Start a job's progress on its GPUs, unless it has lost them, or should start later."""
        job = segment.job
        if self.ledger.open.get(job) is segment and math.isnan(segment.stop):
            if not delayed and (wait := self._execution.delay_s(job, segment.gpus)):
                self.ledger.rows["ready"][job] = later = self._env.now + wait
                call_at(self._env, later, partial(self._run, segment, delayed=True))
                return
            self.ledger.run(job, self._env.now)
            lost_s = self._execution.start(job, segment.gpus,
                                           float(self.ledger.rows["kept"][job]), self._end)
            if lost_s:
                self.ledger.lose_part(job, lost_s)

    def _end(self, job: int) -> None:
        """Free the GPUs of a job that has ended."""
        self.ledger.stop(job, self._env.now, float(self._jobs[job].iterations), 0.0)
        self.ledger.rows["end"][job] = self._env.now
        self._release(job, self._running.pop(job), "finish")
        self._holding.remove(job)
        self.ended += 1
        self._left.append(job)
        self._ask()
        self._notify("job-done", job)

    def _release(self, job: int, gpus: Ints, reason: str) -> None:
        self._pool.give_back(gpus)
        self.ledger.free(job, self._env.now, reason)

    # --- preemption -----------------------------------------------------------------------

    def _preempt(self, job: int) -> None:
        """Take the GPUs from a job once it has saved its progress."""
        now, ledger, options = self._env.now, self.ledger, self._options
        check_preemption(self._name, job, self._jobs, self._running, self._saving,
                         ledger.rows["got"], now)
        grew = self._accounts.grew(job)
        gpus = self._stop(job, self._accounts.kept(job), not grew, options.keep == "fraction")
        if gpus is None:
            return
        ledger.rows["preemptions"][job] += 1
        self._pool.load[gpus] -= self._promise(job)
        ledger.rows["in_vain"][job] = 0 if grew else ledger.rows["in_vain"][job] + 1
        if ledger.rows["in_vain"][job] == _THRASHES:
            raise self._thrashes(job)
        if grew and options.checkpoint_s:
            until = now + options.checkpoint_s
            self._saving[job] = Saving(gpus, until)
            call_at(self._env, until, partial(self._saved, ledger.open[job]))
        else:
            self._release(job, gpus, "preempt")
            self._pending[job] = None
            ledger.rows["waits_since"][job] = now
        self._notify("job-preempted", job)

    def _stop(self, job: int, kept: float, back: bool, lossless: bool = False) -> Ints | None:
        """End the progress of a job and return its GPUs; None if it has just ended by itself.

        With `back`, it keeps only what it had when it got the GPUs.
        """
        ledger, now, lost_s = self.ledger, self._env.now, 0.0
        if not math.isnan(ledger.open[job].run):
            lost_s = self._execution.stop(job, kept, back)
        else:
            self._execution.stay(job)
            self._moving.pop(job, None)
        if job not in self._running:
            return None
        ledger.stop(job, now, kept, 0.0 if lossless else lost_s)
        self._holding.remove(job)
        return self._running.pop(job)

    def _saved(self, segment: Segment, _: Any) -> None:
        """Free the GPUs of a job that has saved its progress, unless it has lost them."""
        job = segment.job
        if self.ledger.open.get(job) is segment:
            self._release(job, self._saving.pop(job).gpus, "preempt")
            self._wait(job)

    def _thrashes(self, job: int) -> StalledError:
        return StalledError(
            f"job {self._jobs[job].id} has been preempted {_THRASHES} times in a row by scheduler "
            f"{self._name}, the last time at {self._env.now:g} s, and kept nothing of it: slices "
            f"or queues are shorter than restore_s, {self._options.restore_s:g} s, and an "
            "iteration")

    # --- loss of servers ------------------------------------------------------------------

    @property
    def lost(self) -> dict[int, None]:
        """Servers that are lost at present."""
        return self._pool.lost

    def lose(self, server: int) -> None:
        """Withdraw a server: its free GPUs are not given any more; jobs on it keep theirs."""
        self._pool.lose(server)
        if any(source == server for source, _ in self._moving.values()):
            self._at(self._env.now, partial(call_last, self._env,
                                            partial(self._send_instead_of, server), DECISIONS))

    def _send_instead_of(self, server: int, _: simpy.Event) -> None:
        """Move from elsewhere what is left of the states that a lost server was sending."""
        for job, (source, before) in list(self._moving.items()):
            if source == server:
                left = self._execution.withdraw_state(job)
                self._send_state(self.ledger.open[job], before, left)

    def evict(self, server: int) -> None:
        """Stop all jobs that use a server, free their GPUs, and queue them like new arrivals."""
        for job, segment in list(self.ledger.open.items()):
            if (not is_now(segment.got, self._env.now)  # started after a repair at this instant
                    and (self._cluster.server_of[segment.gpus] == server).any()):
                self._lose_gpus(job)
        self._ask()

    def _lose_gpus(self, job: int) -> None:
        """Take the GPUs from a job at once."""
        ledger, back = self.ledger, self._options.on_fault == "checkpoint"
        segment = ledger.open[job]
        if job in self._saving:
            gpus: Ints | None = self._saving.pop(job).gpus
            if back:
                ledger.revert(job)
                self._execution.go_back(job)
        else:
            kept = segment.kept if back else self._accounts.finished(job)
            gpus = self._stop(job, kept, kept == segment.kept)
        if gpus is None:
            return
        ledger.rows["lost_s"][job] += segment.lost_s
        ledger.rows["restarts"][job] += 1
        self._release(job, gpus, "fault")
        self._wait(job)

    def repair(self, server: int) -> None:
        """Make the GPUs of a server available again."""
        held = [segment.gpus for segment in self.ledger.open.values()]
        if self._pool.repair(server, np.concatenate([*held, np.empty(0, np.int64)])):
            self._ask()

    # --- decisions ------------------------------------------------------------------------

    def _ask(self) -> None:
        """Schedule one decision after all events of this instant."""
        if not self._asked:
            self._asked = True
            self._at(self._execution.next_start(self._env.now), self._decide_soon)

    def _decide_soon(self, event: simpy.Event) -> None:
        """Decide once no other event of this instant is still to come."""
        call_last(self._env, self._decide, DECISIONS, event)

    def _at(self, instant: float, act: Callable[[simpy.Event], None]) -> None:
        """Schedule a callback after all other events of an instant."""
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks.append(act)
        delay = max(instant - self._env.now, 0.0)
        self._env.schedule(event, DECISIONS, delay)  # type: ignore[arg-type]

    def _decide(self, _: simpy.Event) -> None:
        """Ask the scheduler, check its answer, then preempt and start jobs."""
        self._asked = False
        self._alarm += 1
        self.decided_s = now = self._env.now
        view = self.view()
        news = bool(self._arrived or self._left)
        self._arrived, self._left = [], []
        decision = check_form(self._name, ask(self._name, self._scheduler, view), now)
        held = {job: self._running.get(job) for job in decision.preempt}
        for job in decision.preempt:
            self._preempt(job)
        for k, (job, gpus) in enumerate(decision.start):
            if job in held and not math.isnan(self.end_s[job]):
                continue  # it ended at this instant, instead of being moved
            check_moved(self._name, job, gpus, self._jobs, held, self._saving)
            self._start(job, gpus, [other for _, other in decision.start[k + 1:]])
        if decision.start or decision.preempt or news:
            self._in_vain, self._in_vain_since = 0, now
        if decision.wake_at < math.inf and not self._wakes_in_vain():
            self._at(decision.wake_at, partial(self._wake, self._alarm))

    def view(self) -> ClusterView:
        """Make the view that the scheduler would get now."""
        pool = self._pool
        free, free_on, load = map(read_only, (pool.free, pool.free_on, pool.load))
        return ClusterView(
            self._cluster, self._jobs, self._env.now, self._arrived, self._left,
            MappingProxyType(self._pending), MappingProxyType(self._running), self._holding.array,
            MappingProxyType(self._saving), free, free_on, pool.idle, MappingProxyType(pool.lost),
            load, self._estimates, self._placement, self._accounts, self.ready_on)

    def _wakes_in_vain(self) -> bool:
        """Whether a scheduler asks to be woken repeatedly although nothing else will happen.

        Raises AllocationError if another event will happen, but only after an enormous number of
        further wakes.
        """
        if self._in_vain < _IN_VAIN:
            self._in_vain += 1
            return False
        now, since = self._env.now, self._in_vain_since
        other = min((at for at, _, _, event in self._env._queue
                     if not all(map(self._is_wake, event.callbacks or ()))), default=math.inf)
        self._asks_on = other == math.inf
        if not self._asks_on and other - now > _ENDLESS * (now - since):
            raise AllocationError(
                f"scheduler {self._name} has been asked {_IN_VAIN:,} times in a row from "
                f"{since!r} s to {now!r} s, as it asks to be woken, and nothing else happens "
                f"before {other:g} s: it must ask for later instants")
        self._in_vain, self._in_vain_since = 0, now
        return self._asks_on

    @staticmethod
    def _is_wake(callback: Callable[[simpy.Event], None]) -> bool:
        """Whether a callback is that of a wake, of this engine or another one."""
        return (isinstance(callback, partial)
                and getattr(callback.func, "__func__", None) is Engine._wake)

    def _wake(self, alarm: int, _: simpy.Event) -> None:
        """Wake the scheduler at a time that it asked for, unless it was asked since."""
        if alarm == self._alarm:
            self._ask()

    def states(self) -> list[str]:
        """The state of each job: to come, waiting, restoring, running, saving or done."""
        states = np.full(len(self._jobs), "to come", object)
        states[list(self._pending)] = "waiting"
        states[list(self._running)] = "running"
        restores = ~(self.ledger.rows["ready"] <= self._env.now) & (states == "running")
        states[restores] = "restoring"
        states[list(self._saving)] = "saving"
        states[~np.isnan(self.end_s)] = "done"
        return states.tolist()

    def stalled(self) -> StalledError:
        """Make the error that lists the jobs that wait although no event is left."""
        waiting = ", ".join(f"job {self._jobs[job].id} ({self._jobs[job].ranks} GPUs)"
                            for job in sorted(self._pending)[:5])
        lost = f"; lost servers: {', '.join(map(str, self._pool.lost))}" if self._pool.lost else ""
        asks = f", though it was asked {_IN_VAIN:,} times in a row" if self._asks_on else ""
        return StalledError(f"stalled at t = {self.decided_s:g} s: scheduler "
                            f"{self._name} starts no job, and nothing else will happen{asks}; "
                            f"{len(self._pending)} waiting: {waiting}{lost}"
                            f"{self._not_resumed()}")

    def _not_resumed(self) -> str:
        """Describe, for a message, the preempted jobs that still wait."""
        preempted = [job for job in sorted(self._pending) if self.ledger.rows["preemptions"][job]]
        if not preempted:
            return ""
        named = ", ".join(f"job {self._jobs[job].id}" for job in preempted[:5])
        return (f"; it has preempted {len(preempted)} of them, and a job that was preempted goes "
                f"on only if it is started again: {named}")


# --- jobs of given times, to test schedulers -----------------------------------------------
class _GivenTimes(TimedExecution):
    """An `Execution` in which each job takes a given time on any GPUs."""

    def __init__(self, env: simpy.Environment, jobs: Sequence[JobSpec], seconds: Sequence[float]
                 ) -> None:
        super().__init__(env, jobs)
        self._each_s = [total / job.iterations for total, job in zip(seconds, jobs, strict=True)]

    def seconds(self, job: int, gpus: Ints) -> float:
        """The time per iteration of a job."""
        return self._each_s[job]


def timed_engine(context: RunContext, scheduler: Scheduler, placement: Placement,
                 seconds: Sequence[float], name: str, options: Preemption | None = None
                 ) -> tuple[simpy.Environment, Engine]:
    """Make an engine at the beginning of a run in which jobs take these seconds; see `run_to_end`.

    Returned with its environment.
    """
    env = simpy.Environment(0.0)
    return env, Engine(env, context.cluster, context.jobs, scheduler,
                       _GivenTimes(env, context.jobs, seconds), placement, name, options)


def run_to_end(env: simpy.Environment, engine: Engine) -> None:
    """Run an engine until all jobs have ended."""
    while engine.ended < len(engine.end_s):
        try:
            env.step()
        except simpy.core.EmptySchedule:
            raise engine.stalled() from None
