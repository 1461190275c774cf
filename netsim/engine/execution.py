"""The base of executions: the ways in which placed jobs run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from netsim.workload import JobSpec

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Execution(ABC):
    """Base of the ways in which placed jobs run.

    The methods that start, stop and measure jobs are abstract. The other methods have defaults for
    jobs that can start at any time, on as many GPUs as they ask for, without data being sent to
    their servers first.
    """

    #: Whether the state of a job that gets other servers is sent over the simulated network, by
    #: `send_state`. If not, moving the state takes its bytes divided by the rate of a NIC.
    sends_state: ClassVar[bool] = False

    def __init__(self, env: Any, jobs: Sequence[JobSpec]) -> None:
        self._env, self._jobs = env, jobs

    @abstractmethod
    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> None:
        """Start a job that has already made `kept` iterations; at its end, call ``ended(job)``."""

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
