"""The engine of clusters: jobs arrive, get GPUs from a scheduler, run and return them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.contention import Contention, RunningJobs
from netsim.cluster.slices import split_replica_error
from netsim.engine.estimates import estimates_of
from netsim.engine.view import ClusterView, Decision, Scheduler, Start
from netsim.errors import AllocationError, StalledError
from netsim.forking import Known
from netsim.jobs.arrivals import Arrivals
from netsim.placements.placement import FirstFit, Placement
from netsim.workload import JobSpec

__all__ = ["ContentionExecution", "Engine", "Execution"]

Ints = NDArray[np.int64]

#: SimPy priority of decisions: after all arrivals and exits of the same instant.
_LAST = 2

#: Relative tolerance for rounding within which instants are equal.
_ROUNDING = 1e-12

#: Successive wakes after which the engine checks whether other events will happen.
_IN_VAIN = 100_000

#: Largest multiple of the time of these wakes by which the next other event may be away.
_ENDLESS = 10_000


class Execution(Protocol):
    """A way in which placed jobs run."""

    def start(self, job: int, gpus: Ints, ended: Callable[[int], None]) -> None:
        """Start a job now; call `ended` with its index when it has made all its iterations.

        An execution in which jobs can start at certain instants only also has ``next_start(now)``.
        One in which jobs may lose their GPUs also has ``stop(job)``, which returns the seconds of
        the current iteration; this iteration is lost, and the job repeats it when it is started
        again. If the job has just made its last iteration, ``stop`` ends it instead.
        """

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make place for a job that has been submitted during the run, and has not arrived.

        The jobs of the run have it among them now, and those after it the next numbers.
        """


class ContentionExecution:
    """Jobs run as the contention model says.

    Parameters
    ----------
    env : simpy.Environment
    cluster : Cluster
    jobs : sequence of JobSpec
    model : Contention
    factors : ndarray of float, shape (servers,), optional
        Factor by which computation takes longer on each server.
    """

    def __init__(self, env: simpy.Environment, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, factors: NDArray[np.float64] | None = None) -> None:
        self._env, self._cluster, self._jobs, self._model = env, cluster, jobs, model
        self._factors = np.ones(cluster.servers) if factors is None else factors
        self._running = RunningJobs(model.of(cluster, jobs), cluster, jobs)
        self._ended: Callable[[int], None] | None = None
        self._alarm = 0

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make place for a job that has not arrived; see `Execution`."""
        self._jobs = jobs
        self._running.set_jobs(self._model.of(self._cluster, jobs), jobs)

    def next_start(self, now: float) -> float:
        """Return the next instant at which jobs may start: the beginning of a slot, or now."""
        return self._running.next_start(now)

    def start(self, job: int, gpus: Ints, ended: Callable[[int], None]) -> None:
        """Start a job; in slotted time at the beginning of a slot. See `Execution.start`."""
        self._ended = ended
        self._catch_up()
        servers = np.unique(self._cluster.server_of[gpus])
        slower = float(self._factors[servers].max()) - 1
        self._running.start(job, servers.tolist(), slower * self._jobs[job].compute_s)
        self._reset_alarm_soon()

    def stop(self, job: int) -> float:
        """Stop a job; in slotted time at the beginning of a slot. See `Execution.start`."""
        self._catch_up()
        lost_s = self._running.stop(job) if job in self._running else 0.0
        self._reset_alarm_soon()
        return lost_s

    def _catch_up(self) -> None:
        """Advance the model to the current instant."""
        if self._running.now < self._env.now and len(self._running):
            self._leave(self._running.advance(self._env.now))
        elif not len(self._running):
            self._running.advance(self._env.now)

    def _reset_alarm_soon(self) -> None:
        """Set the alarm again after all starts and stops of this instant."""
        self._alarm += 1
        self._env.timeout(0).callbacks.append(partial(self._set_alarm, self._alarm))

    def _set_alarm(self, alarm: int, _: simpy.Event) -> None:
        """Set an alarm for the next exit, unless jobs have started or stopped since."""
        if alarm == self._alarm and len(self._running):
            wait = max(self._running.next_exit() - self._env.now, 0.0)
            self._env.timeout(wait).callbacks.append(partial(self._exit, alarm))

    def _exit(self, alarm: int, event: simpy.Event) -> None:
        """Let jobs leave at an exit, unless the alarm is outdated."""
        if alarm == self._alarm:
            self._alarm += 1
            self._leave(self._running.to_next_exit())
            self._set_alarm(self._alarm, event)

    def _leave(self, done: Sequence[int]) -> None:
        """Report jobs that have ended."""
        assert self._ended is not None or not done
        for job in done:
            self._ended(job)  # type: ignore[misc]


class Engine:
    """Runs jobs from their arrival to their end.

    Parameters
    ----------
    env : simpy.Environment
    cluster : Cluster
    jobs : sequence of JobSpec
        Jobs in order of (arrival, id).
    scheduler : Scheduler
    execution : Execution
    placement : Placement, optional
        Placement for schedulers that do not choose GPUs themselves; first fit by default.
    name : str, optional
        Name of the scheduler in errors; by default that of its class.

    Attributes
    ----------
    gpus : dict of int to ndarray of int
        GPUs of each job that has started; the most recent ones if it was restarted.
    start_s, since_s, end_s : ndarray of float, shape (jobs,)
        First start of each job, start on its most recent GPUs, and end; NaN before.
    ended : int
        Number of jobs that have ended.
    decided_s : float
        Instant of the scheduler's last decision.
    cut : list of (int, ndarray of int, float, float)
        Evictions: the job, the GPUs that it lost, and the interval in which it held them.
    lost_s : ndarray of float, shape (jobs,)
        Seconds that each job spent in iterations that evictions cut short.
    lost : dict of int to None
        Servers that are lost at present.
    told : callable or None
        Called with what has happened, such as ``"job-done"``, and the job.
    """

    def __init__(self, env: simpy.Environment, cluster: Cluster, jobs: Sequence[JobSpec],
                 scheduler: Scheduler, execution: Execution,
                 placement: Placement | None = None, name: str | None = None) -> None:
        for job in jobs:
            check_size(job, cluster)
        self._env, self._cluster, self._jobs = env, cluster, jobs
        self._scheduler, self._execution = scheduler, execution
        self._name = name or type(scheduler).__name__
        self._placement = placement or FirstFit()
        self._pending: dict[int, None] = {}
        self._running: dict[int, Ints] = {}
        self._free = np.ones(cluster.total, np.bool_)
        self._free_on = cluster.gpus.copy()
        self._idle = cluster.total
        self._load, self._estimates = np.zeros(cluster.total), _read_only(estimates_of(jobs))
        self._arrived: list[int] = []
        self._left: list[int] = []
        self._asked, self._alarm = False, 0
        self._in_vain, self._in_vain_since = 0, env.now
        self._asks_on = False
        self._next_start = getattr(execution, "next_start", None)
        self._stop = getattr(execution, "stop", None)
        self.ended = 0
        self.decided_s = env.now
        self.gpus: dict[int, Ints] = Known()
        self.start_s, self.since_s, self.end_s = np.full((3, len(jobs)), np.nan)
        self.cut: list[tuple[int, Ints, float, float]] = []
        self.lost_s = np.zeros(len(jobs))
        self.lost: dict[int, None] = {}
        self.told: Callable[[str, int], None] | None = None
        self._arrivals = Arrivals(env, [job.arrival_s for job in jobs], self._arrive)

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Take in a job that is to arrive; others from its number on get the next one.

        Parameters
        ----------
        job : int
        jobs : sequence of JobSpec
            All jobs, that one among them.
        """
        check_size(jobs[job], self._cluster)
        self._jobs = jobs
        self._estimates = _read_only(estimates_of(jobs))
        for name, none in (("start_s", np.nan), ("since_s", np.nan), ("end_s", np.nan),
                           ("lost_s", 0.0)):
            setattr(self, name, np.insert(getattr(self, name), job, none))
        self._execution.add_job(job, jobs)
        self._arrivals.add(job, jobs[job].arrival_s)

    def _tell(self, what: str, job: int) -> None:
        if self.told is not None:
            self.told(what, job)

    def _arrive(self, job: int) -> None:
        """Let a job wait for GPUs."""
        self._pending[job] = None
        self._arrived.append(job)
        self._ask()
        self._tell("job-arrived", job)

    def _end(self, job: int) -> None:
        """Free the GPUs of a job that has ended."""
        gpus = self._running.pop(job)
        self._give(gpus, 1)
        self.end_s[job] = self._env.now
        self.ended += 1
        self._left.append(job)
        self._ask()
        self._tell("job-done", job)

    # --- loss of servers ------------------------------------------------------------------

    def lose(self, server: int) -> None:
        """Withdraw a server: its free GPUs are not given any more; jobs on it keep theirs."""
        own = self._gpus_of(server)
        self._give(own[self._free[own]], -1)
        self.lost[server] = None

    def evict(self, server: int) -> None:
        """Stop all jobs that use a server, free their GPUs, and queue them like new arrivals."""
        assert self._stop is not None
        for job, gpus in list(self._running.items()):
            if (self.since_s[job] == self._env.now  # started after a repair at this very instant
                    or not (self._cluster.server_of[gpus] == server).any()):
                continue
            self.lost_s[job] += self._stop(job)
            if job not in self._running:  # it has just ended
                continue
            self._give(self._running.pop(job), 1)
            self.cut.append((job, gpus, float(self.since_s[job]), self._env.now))
            self.since_s[job] = np.nan
            self._pending[job] = None
            self._arrived.append(job)
        self._ask()

    def repair(self, server: int) -> None:
        """Make the GPUs of a server available again."""
        if server in self.lost:
            del self.lost[server]
            held = np.concatenate([*self._running.values(), np.empty(0, np.int64)])
            self._give(np.setdiff1d(self._gpus_of(server), held), 1)
            self._ask()

    def _gpus_of(self, server: int) -> Ints:
        """Return the GPUs of a server."""
        return np.arange(self._cluster.first[server], self._cluster.first[server + 1])

    # --- decisions ------------------------------------------------------------------------

    def _ask(self) -> None:
        """Schedule one decision after all events of this instant."""
        if not self._asked:
            self._asked = True
            now = self._env.now
            self._at(self._next_start(now) if self._next_start else now, self._decide_soon)

    def _decide_soon(self, _: simpy.Event) -> None:
        """Decide, unless another event of the same instant, up to rounding, is still to come."""
        now, next_event = self._env.now, self._env.peek()
        if now < next_event <= now * (1 + _ROUNDING):
            self._at(next_event, self._decide_soon)
        else:
            self._decide()

    def _at(self, instant: float, act: Callable[[simpy.Event], None]) -> None:
        """Schedule a callback after all other events of an instant."""
        event = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks.append(act)
        delay = max(instant - self._env.now, 0.0)
        self._env.schedule(event, _LAST, delay)  # type: ignore[arg-type]

    def _decide(self) -> None:
        """Ask the scheduler, check its answer and start the jobs."""
        self._asked = False
        self._alarm += 1
        self.decided_s = self._env.now
        free, free_on, load = map(_read_only, (self._free, self._free_on, self._load))
        view = ClusterView(
            self._cluster, self._jobs, self._env.now, self._arrived, self._left,
            MappingProxyType(self._pending), MappingProxyType(self._running), free, free_on,
            self._idle, load, self._estimates, self._placement)
        news = bool(self._arrived or self._left)
        self._arrived, self._left = [], []
        answer = self._scheduler.decide(view)
        decision = answer if isinstance(answer, Decision) else Decision(answer)
        starts = self._checked(decision)
        for job, gpus in starts:
            self._start(job, gpus)
        if starts or news:
            self._in_vain, self._in_vain_since = 0, self._env.now
        if decision.wake_at < math.inf and not self._wakes_in_vain():
            self._at(float(decision.wake_at), partial(self._wake, self._alarm))

    def _wakes_in_vain(self) -> bool:
        """Whether a scheduler asks to be woken repeatedly although nothing else will happen.

        Raises
        ------
        AllocationError
            If another event will happen, but only after an enormous number of further wakes.
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

    def _is_wake(self, callback: Callable[[simpy.Event], None]) -> bool:
        """Whether a callback is that of a wake."""
        return isinstance(callback, partial) and callback.func == self._wake

    def _checked(self, decision: Decision) -> list[Start]:
        """Return the starts of a decision as arrays, after checking their form."""
        now, name = self._env.now, self._name
        try:
            starts = [(job, np.asarray(gpus)) for job, gpus in decision.starts]
            sound = all(gpus.ndim == 1 and gpus.dtype.kind in "iu" for _, gpus in starts)
            late = decision.wake_at > now or (bool(starts) and decision.wake_at == now)
        except (TypeError, ValueError):
            sound, late = False, True
        if not sound:
            raise AllocationError(f"scheduler {name} must return pairs (job, array of GPUs), or a "
                                  f"Decision of them, not {reprlib.repr(decision.starts)}")
        if not late:
            raise AllocationError(f"scheduler {name} asks to be woken at {decision.wake_at!r} s, "
                                  f"which is not after {now!r} s")
        return starts

    def _wake(self, alarm: int, _: simpy.Event) -> None:
        """Ask the scheduler at an instant that it asked for, unless it was asked since."""
        if alarm == self._alarm:
            self._ask()

    def _start(self, job: int, gpus: Ints) -> None:
        """Start a job on its GPUs."""
        self._check(job, gpus)
        del self._pending[job]
        self._give(gpus, -1)
        self._load[gpus] += self._estimates[job]
        self._running[job] = self.gpus[job] = gpus
        self.since_s[job] = self._env.now
        if np.isnan(self.start_s[job]):
            self.start_s[job] = self._env.now
        self._execution.start(job, gpus, self._end)
        self._tell("job-started", job)

    def _give(self, gpus: Ints, sign: int) -> None:
        """Mark GPUs as free (sign 1), except those of lost servers, or as taken (sign -1)."""
        if self.lost and sign > 0:
            gpus = gpus[~np.isin(self._cluster.server_of[gpus], list(self.lost))]
        self._free[gpus] = sign > 0
        self._idle += sign * len(gpus)
        if len(gpus) == 1:
            self._free_on[self._cluster.server_of[gpus[0]]] += sign
        else:
            np.add.at(self._free_on, self._cluster.server_of[gpus], sign)

    def _check(self, job: int, gpus: Ints) -> None:
        """Check that a job waits and that it can have the GPUs."""
        name = self._name
        if job not in self._pending:
            raise AllocationError(f"scheduler {name} starts the job with index {job}, which is "
                                  "not waiting")
        spec, listed = self._jobs[job], gpus.tolist()
        if len(listed) != spec.ranks or len(set(listed)) != spec.ranks:
            raise AllocationError(f"scheduler {name} gives job {spec.id} the GPUs "
                                  f"{listed}; it needs {spec.ranks}")
        if min(listed) < 0 or max(listed) >= len(self._free):
            raise AllocationError(f"scheduler {name} gives job {spec.id} the GPUs {listed}; there "
                                  f"are {len(self._free)}, numbered from 0")
        if not self._free[gpus].all():
            taken = gpus[~self._free[gpus]].tolist()
            lost = ", or of lost servers" if self.lost else ""
            raise AllocationError(f"scheduler {name} gives job {spec.id} GPUs that are taken"
                                  f"{lost}: {taken}")
        if fault := split_replica_error(spec.model, self._cluster.server_of[gpus]):
            raise AllocationError(f"scheduler {name}, for job {spec.id}: {fault}")

    def states(self) -> list[str]:
        """Return the state of each job: to come, waiting, running or done."""
        states = np.full(len(self._jobs), "to come", object)
        states[list(self._pending)] = "waiting"
        states[list(self._running)] = "running"
        states[~np.isnan(self.end_s)] = "done"
        return states.tolist()

    def stalled(self) -> StalledError:
        """Return the error that lists the jobs that wait although no event is left."""
        waiting = ", ".join(f"job {self._jobs[job].id} ({self._jobs[job].ranks} GPUs)"
                            for job in sorted(self._pending)[:5])
        lost = f"; lost servers: {', '.join(map(str, self.lost))}" if self.lost else ""
        asks = f", though it was asked {_IN_VAIN:,} times in a row" if self._asks_on else ""
        return StalledError(f"stalled at t = {self.decided_s:g} s: scheduler "
                            f"{self._name} starts no job, and nothing else will happen{asks}; "
                            f"{len(self._pending)} waiting: {waiting}{lost}")


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array."""
    view = array.view()
    view.setflags(write=False)
    return view
