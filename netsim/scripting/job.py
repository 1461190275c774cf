"""The jobs of a `netsim.Fabric`: a user's, coflows that belong together, and those of netsim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from netsim.base.lazy import simpy
from netsim.jobs.process import JobProcess
from netsim.workload import JobSpec


class Job:
    """A job as a group of coflows, for policies that rank jobs; `netsim.Fabric.job` makes it.

    Parameters
    ----------
    end : callable
        Called by `end` with the job.
    weight, group
        As attributes.

    Attributes
    ----------
    index : int
        Its number on the fabric, in order of creation, which breaks ties.
    name : str
    arrival_s, start_s, finish_s : float
        When it was made, sent its first byte, and ended; in seconds, NaN until then.
    submitted, done : int
        The number of coflows that it has submitted, and how many of these have completed.
    nbytes : float
        Bytes of the completed coflows.
    weight : float
        Its priority, by which the weights of its coflows are multiplied.
    group : int, str or None
        A label of jobs that belong together.
    ended : bool
        Whether it has ended, so that no more coflows can be submitted.
    """

    # As in the table of jobs; a job of netsim has others.
    iterations, ranks, lower_bound_s = 1, 0, math.nan

    def __init__(self, index: int, name: str, arrival_s: float, end: Callable[[Job], None],
                 weight: float = 1.0, group: int | str | None = None) -> None:
        self._end = end
        self.ended = False
        self.index = index
        self.name = name
        self.weight, self.group = weight, group
        self.arrival_s = arrival_s
        self.start_s = self.finish_s = math.nan
        self.submitted = self.done = 0
        self.nbytes = 0.0

    @property
    def id(self) -> int:
        """Its number, as in the tables of a result."""
        return self.index

    def end(self) -> None:
        """End the job now: it submits no more coflows.

        Raises
        ------
        InputError
            If it has ended already, or one of its coflows is in flight.
        """
        self._end(self)

    def __repr__(self) -> str:
        return f"<Job {self.index} {self.name!r}>"


class JobDone(NamedTuple):
    """The value of the event of a submitted job when the job has ended; see `Fabric.submit`.

    Attributes
    ----------
    job : int
        The number of the job, as in the tables of the result.
    arrival_s, start_s, finish_s : float
        When it arrived, when its first byte was sent, and when it ended; in seconds.
    jct_s : float
        The job completion time: `finish_s` minus `arrival_s`; in seconds.
    bytes : float
        Size of its coflows, without headers.
    """

    job: int
    arrival_s: float
    start_s: float
    finish_s: float
    jct_s: float
    bytes: float


class SubmittedJob(Job):
    """A job that netsim runs, whose coflows `process` submits; `ended` fires at its end."""

    process: JobProcess  #: while it runs

    def __init__(self, index: int, spec: JobSpec, process: JobProcess, ended: simpy.Event,
                 end: Callable[[Any], None]) -> None:
        super().__init__(index, spec.name, spec.arrival_s, end, spec.weight, spec.group)
        self.spec = replace(spec, id=index)  #: as the table of jobs describes it
        self.process, self._ended = process, ended

    def report(self) -> None:
        """Have all coflows that have completed so far recorded."""
        self.process.tell()
        self.start_s, self.lower_bound_s = self.process.start_s, self.process.lower_bound_s

    def finish(self) -> None:
        """End with the process, and fire the event."""
        self.report()
        self.ended, self.finish_s = True, self.process.finish_s
        del self.process
        self._end(self)
        self._ended.succeed(JobDone(self.index, self.arrival_s, self.start_s, self.finish_s,
                                    self.finish_s - self.arrival_s, self.nbytes))
