"""Executions: how jobs that have GPUs run. The base class, and executions by models of time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.lazy import simpy
from netsim.base.values import Known
from netsim.cluster.cluster import Cluster, server_kind
from netsim.cluster.contention import Contention, RunningJobs
from netsim.cluster.ring import model_of
from netsim.engine.preemption import whole
from netsim.jobs.stragglers import slowed_model
from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound, per_iteration
from netsim.workload import JobSpec


class Execution(ABC):
    """Base of the ways in which placed jobs run.

    The methods that start, stop and measure jobs are abstract. The other methods have defaults for
    jobs that can start at any time, on as many GPUs as they ask for, without data being sent to
    their servers first.
    """

    #: Whether the state of a job that gets other servers is sent over the simulated network, by
    #: `send_state`. If not, moving the state takes its bytes divided by the rate of a NIC.
    sends_state: ClassVar[bool] = False

    #: Whether `prefer` may choose other GPUs for a job than those that it should get.
    prefers: bool = False

    def __init__(self, env: Any, jobs: Sequence[JobSpec]) -> None:
        self._env, self._jobs = env, jobs

    @abstractmethod
    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        """Start a job that has already made `kept` iterations; at its end, call ``ended(job)``.

        Return the seconds of the current iteration that it has to make again on these GPUs.
        """

    @abstractmethod
    def progress(self, jobs: Any) -> Any:
        """The iterations that running jobs have made, with the part of the current one."""

    @abstractmethod
    def finished(self, job: int) -> float:
        """The whole iterations that a running job has made."""

    @abstractmethod
    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job that keeps `kept` iterations; return the seconds of those that it loses.

        With `back`, the job loses all that it has made since its last start. If it has just made
        its last iteration, it ends instead.
        """

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make room for a job that was submitted during the run and has not arrived.

        `jobs` includes it, and the numbers of later jobs have grown by one.
        """
        self._jobs = jobs

    def next_start(self, now: float) -> float:
        """The next instant at which jobs may start, in seconds."""
        return now

    def sizes(self, job: int) -> Sequence[int]:
        """The numbers of GPUs with which a job can run, in ascending order.

        0 stands for a place outside of the cluster that has room for any job.
        """
        return (self._jobs[job].ranks,)

    def prefer(self, job: int, gpus: Ints, free: Bools) -> Ints:
        """Return the GPUs on which a job should start for the first time, instead of `gpus`.

        `free` marks the GPUs among which to choose.
        """
        return gpus

    def delay_s(self, job: int, gpus: Ints) -> float:
        """By how much a job that could start now should start later, in seconds."""
        return 0.0

    # --- jobs that are stopped, and go on elsewhere ----------------------------------------

    def go_back(self, job: int) -> None:  # noqa: B027 (nothing to do by default)
        """Discard what a job has made since its last start, after it was stopped."""

    def send_state(self, job: int, nbytes: Floats, source: int, targets: Ints,
                   there: Callable[[], None]) -> None:
        """Send the state of a job from one server to others, then call `there`.

        Only called if `sends_state` is set. `nbytes` are the bytes for each of the other servers.
        `there` is not called if `stay` or `withdraw_state` is called first.
        """
        raise NotImplementedError

    def withdraw_state(self, job: int) -> Floats:
        """Stop sending the state of a job; return the bytes left for each server."""
        raise NotImplementedError

    def stay(self, job: int) -> None:  # noqa: B027
        """Stop waiting for a job's state or data; data in transit continues to be sent."""

    # --- the data on which jobs train ------------------------------------------------------

    def data_on(self, job: int, gpus: Ints) -> float:
        """When a job's data should be on the servers of GPUs if it got them now."""
        return float(self._env.now)

    def fetch(self, job: int, gpus: Ints, there: Callable[[], None]) -> bool:
        """Begin to send a job's data to the servers of the GPUs that it gets.

        Returns True if the data is in transit over a network, so that the time of its arrival is
        not known. `there` is then called when it has arrived, unless `stay` is called first.
        """
        return False


#: Seconds assumed for iterations that take no time, so that progress is a number.
_LEAST_S = 1e-300


class TimedExecution(Execution):
    """Base of executions in which n iterations of a job take n times `seconds`; see `Execution`."""

    def __init__(self, env: Any, jobs: Sequence[JobSpec]) -> None:
        super().__init__(env, jobs)
        # Of running jobs: the start, the iterations made before it, and seconds per iteration.
        self._since, self._kept, self._alpha = np.full((3, len(jobs)), np.nan)
        #: What ends each running job. Two starts may be at one instant.
        self._timers: dict[int, Any] = {}

    @abstractmethod
    def seconds(self, job: int, gpus: Ints) -> float:
        """The time per iteration of a job on some GPUs, given in order of ranks."""

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        super().add_job(job, jobs)
        self._since, self._kept, self._alpha = (
            np.insert(each, job, np.nan) for each in (self._since, self._kept, self._alpha))

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        alpha, since = self.seconds(job, gpus), self._env.now
        self._since[job], self._kept[job], self._alpha[job] = since, kept, alpha
        self._ended = ended
        self._timers[job] = timer = self._env.timeout((self._jobs[job].iterations - kept) * alpha)
        timer.callbacks.append(partial(self._end, job))
        return 0.0

    def _end(self, job: int, timer: Any) -> None:
        """End a job, unless it has been stopped since."""
        if self._timers.get(job) is timer:
            del self._timers[job]
            self._since[job] = np.nan
            self._ended(job)

    def progress(self, jobs: Any) -> Any:
        alpha = np.maximum(self._alpha[jobs], _LEAST_S)
        return self._kept[jobs] + (self._env.now - self._since[jobs]) / alpha

    def finished(self, job: int) -> float:
        return min(whole(float(self.progress(job))), float(self._jobs[job].iterations))

    def stop(self, job: int, kept: float, back: bool) -> float:
        since, before = float(self._since[job]), float(self._kept[job])
        if self.finished(job) >= self._jobs[job].iterations:
            self._end(job, self._timers[job])
            return 0.0
        del self._timers[job]
        self._since[job] = np.nan
        return max(self._env.now - since - (kept - before) * float(self._alpha[job]), 0.0)


class IterationTimeExecution(TimedExecution):
    """Execution in which n iterations take n times alpha seconds, by Eq. 4 to 7 of A-SRPT.

    alpha is the iteration time of the job on its GPUs. Each GPU has a fixed share of its server's
    NIC, so that jobs do not slow each other down. Servers must be equal, and jobs models or rings.
    See `Execution`.
    """

    def __init__(self, env: Any, cluster: Cluster, jobs: Sequence[JobSpec],
                 factors: Floats | None = None) -> None:
        super().__init__(env, jobs)
        self._cluster = cluster
        # By server: how many times as long computation takes.
        self._factors = None if factors is None or (factors == 1).all() else factors
        self._kind = server_kind(cluster)
        self._models = [model_of(job) for job in jobs]
        self._found = Known()
        self._least_of()

    def _least_of(self) -> None:
        """Compute the lower bound on the time of an iteration of each job, in seconds."""
        least = {model: alpha_min_bound(model, self._kind)
                 for model in dict.fromkeys(self._models)}
        #: Lower bounds in seconds, shape (jobs,).
        self.least = np.array([least[model] for model in self._models])

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        super().add_job(job, jobs)
        self._models.insert(job, model_of(jobs[job]))
        self._least_of()

    def seconds(self, job: int, gpus: Ints) -> float:
        """The time per iteration (alpha) of a job on some GPUs, given in order of ranks."""
        model, servers = self._models[job], self._cluster.server_of[gpus]
        if self._factors is not None:
            model = slowed_model(model, self._factors[servers])
        # Servers are renumbered by their first rank, as their identity makes no difference.
        number: dict[int, int] = {}
        places = tuple([number.setdefault(server, len(number)) for server in servers.tolist()])
        found = self._found.get((model, places))
        if found is None:
            found = self._found[model, places] = self._seconds(model, np.array(places), len(number))
        return found

    def _seconds(self, model: ParallelModel, places: Ints, servers: int) -> float:
        """Compute alpha from the server of each rank."""
        stages = len(model.stages)
        stage = np.repeat(np.arange(stages), [each.gpus for each in model.stages])
        counts = np.bincount(places * stages + stage, minlength=servers * stages)
        return per_iteration(model, counts.reshape(servers, stages), self._kind)


class ContentionExecution(Execution):
    """Execution in which jobs run at the pace of the contention model."""

    def __init__(self, env: simpy.Environment, cluster: Cluster, jobs: Sequence[JobSpec],
                 model: Contention, factors: Floats | None = None) -> None:
        super().__init__(env, jobs)
        self._cluster, self._model = cluster, model
        # By server: how many times as long computation takes.
        self._factors = np.ones(cluster.servers) if factors is None else factors
        self._running = RunningJobs(model.of(cluster, jobs), cluster, jobs)
        self._ended: Callable[[int], None] | None = None
        self._alarm = 0

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        super().add_job(job, jobs)
        self._running.set_jobs(self._model.of(self._cluster, jobs), jobs)

    def next_start(self, now: float) -> float:
        """The next instant at which jobs may start: the beginning of a slot, or now."""
        return self._running.next_start(now)

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> float:
        """Start a job; in slotted time at the beginning of a slot. See `Execution.start`."""
        self._ended = ended
        self._catch_up()
        servers = np.unique(self._cluster.server_of[gpus])
        slower = float(self._factors[servers].max()) - 1
        self._running.start(job, servers.tolist(), kept, slower * self._jobs[job].compute_s)
        self._reset_alarm_soon()
        return 0.0

    def progress(self, jobs: Any) -> Any:
        now = self._env.now
        if np.ndim(jobs) == 0:
            return self._running.made(int(jobs), now)
        return np.array([self._running.made(job, now) for job in jobs.tolist()])

    def finished(self, job: int) -> float:
        return whole(self.progress(job))

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job; in slotted time at the beginning of a slot. See `Execution`."""
        self._catch_up()
        lost_s = self._running.stop(job, kept) if job in self._running else 0.0
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
        """End the jobs of an exit, unless the alarm is outdated."""
        if alarm == self._alarm:
            self._alarm += 1
            self._leave(self._running.to_next_exit())
            self._set_alarm(self._alarm, event)

    def _leave(self, done: Sequence[int]) -> None:
        """Report jobs that have ended."""
        assert self._ended is not None or not done
        for job in done:
            self._ended(job)  # type: ignore[misc]
