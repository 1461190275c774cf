"""The interface of executions: the ways in which placed jobs run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.workload import JobSpec

__all__ = ["Execution"]

Ints = NDArray[np.int64]


class Execution(Protocol):
    """A way in which placed jobs run.

    An execution in which jobs can start at certain instants only also has ``next_start(now)``. One
    on a network also has ``move(job, nbytes, source, targets, moved)``, which sends the state of a
    job from a server to others and then calls `moved` with the job, and ``stay(job)``, which
    withdraws what is being sent; elsewhere the state moves at the rate of NICs. It also has
    ``go_back(job)``, by which a job that has been stopped gives up what it made since its start.

    One whose jobs train on data that has to be on the servers of their GPUs also has
    ``data_on(job, gpus)``, which returns when it should be there if the job got the GPUs now, and
    ``fetch(job, gpus, there)``, which begins to send it as the job gets them. It returns True if
    data is on its way over a network, so that nobody knows when it will be there; it then calls
    `there` when it is, unless ``stay(job)`` comes first. What is on its way goes on being sent.

    One in which the number of GPUs is free has ``sizes(job)``, which returns the numbers with which
    a job can run, in ascending order; 0 stands for a place outside of the cluster that has room for
    any job.
    """

    def start(self, job: int, gpus: Ints, kept: float, ended: Callable[[int], None]) -> None:
        """Start a job now, which has `kept` iterations; call `ended` with its index at its end."""

    def progress(self, jobs: Any) -> Any:
        """Return the iterations that running jobs have made, with the part of the current one.

        Parameters
        ----------
        jobs : int or ndarray of int
        """

    def finished(self, job: int) -> float:
        """Return the whole iterations that a running job has made."""

    def stop(self, job: int, kept: float, back: bool) -> float:
        """Stop a job, which keeps some iterations; return the seconds of those that it loses.

        If the job has just made its last iteration, this ends it instead.

        Parameters
        ----------
        job : int
        kept : float
            Iterations that the job keeps.
        back : bool
            Whether it loses all that it has made since it was started.
        """

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Make place for a job that has been submitted during the run, and has not arrived.

        The jobs of the run have it among them now, and those after it the next numbers.
        """
