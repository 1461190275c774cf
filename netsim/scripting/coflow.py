"""A coflow that a user's process has submitted, as an event to wait for; records of coflows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from simpy.events import Condition

from netsim.base.arrays import Ints
from netsim.base.lazy import simpy
from netsim.errors import Cancelled, InputError
from netsim.fabric.clock import CoflowEvent
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.process import CompletedCoflow, JobProcess
from netsim.network import Topology
from netsim.results.lazy_table import LazyTable, SpillingTable
from netsim.results.recorder import CoflowRecorder
from netsim.results.tables import OF_OTHERS, coflow_rows, of_events, packed
from netsim.scripting.job import Job
from netsim.workload import Operations, Stage

if TYPE_CHECKING:
    import pandas as pd


class CoflowDone(NamedTuple):
    """The value of a coflow's event when the coflow has completed.

    Attributes
    ----------
    coflow : int
        The number of the coflow, as in the tables of the result.
    valid_s, start_s, finish_s : float
        When it was submitted, when its first byte was sent, and when its last byte arrived; in
        seconds.
    cct_s : float
        The coflow completion time: `finish_s` minus `valid_s`; in seconds.
    bytes : float
        Size of the coflow, without headers.
    """

    coflow: int
    valid_s: float
    start_s: float
    finish_s: float
    cct_s: float
    bytes: float


class Coflow(CoflowEvent):
    """A coflow in flight: a SimPy event, which fires when its completion is noticed.

    The value of the event is a `CoflowDone`. If the coflow is cancelled, or one of its hosts is
    lost, the event fails with `netsim.Cancelled`. Processes that no longer wait for the event need
    not handle this exception.

    Parameters
    ----------
    completed : callable
        Called with the coflow when it has completed, before waiting processes resume.
    cancel : callable
        Withdraws the coflow, given the coflow and the reason; returns the bytes that are left.

    Attributes
    ----------
    number : int
        Its number on the fabric, in order of submission.
    name : str
        The name by which it is recorded, in the column ``stage``.
    owner : Job
        Its job.
    valid_s, begin_s : float
        When it was submitted, and when its overhead is over; in seconds.
    start_s, sent_s, finish_s : float
        When its first byte was sent, when its last byte was sent, and when its last byte arrived;
        in seconds, NaN until then.
    alone : bool
        Whether its job consists of this coflow only, and ends with it.
    cancelled : bool
    ended_s, left : float
        When it was cancelled, in seconds, and the bytes that were left; NaN if it was not.
    """

    def __init__(self, env: simpy.Environment, number: int, owner: Job, alone: bool, stage: Stage,
                 demand: RoutedCoflow, completed: Callable[[Coflow], None],
                 cancel: Callable[[Coflow, str], float]) -> None:
        super().__init__(env, owner.index, owner.submitted, demand)
        self._completed, self._cancel = completed, cancel
        self.number = number
        self.owner = owner
        self.alone = alone
        self.stage = stage
        self.cancelled = False
        self.ended_s = self.left = math.nan

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def nbytes(self) -> float:
        """Its size in bytes, without headers."""
        return self.demand.payload

    @property
    def sent(self) -> float:
        """Bytes that were sent until it was cancelled, without headers."""
        whole = self.demand.nbytes
        return self.nbytes * (1 - self.left / whole) if whole else 0.0

    def cancel(self) -> float:
        """Withdraw the coflow; bytes sent until now stay sent.

        Returns
        -------
        float
            The bytes that were not sent; 0 if it was complete or cancelled before.
        """
        return self._cancel(self, f"coflow {self.number} {self.name!r} was cancelled")

    def complete_at_once(self) -> None:
        """Complete the coflow now: waiting processes are only scheduled, so that nothing recurs."""
        self.complete()

    def complete(self) -> None:
        """Record the coflow, and resume its waiting processes, which must be in its environment."""
        for waits in _waiting_for(self):
            if getattr(waits, "env", self.env) is not self.env:
                raise InputError(f"{waits} waits for {self}, which is in another environment")
        self._completed(self)
        self.succeed(CoflowDone(self.number, self.valid_s, self.start_s, self.finish_s,
                                self.finish_s - self.valid_s, self.nbytes))

    def give_up(self, why: str, left: float) -> None:
        """Fail with `Cancelled`; if no process waits, this is not an error."""
        self.cancelled, self.ended_s, self.left = True, float(self.env.now), left
        self.fail(Cancelled(f"{why} at {self.env.now:g} s, with {left:g} of "
                            f"{self.demand.nbytes:g} bytes left", left))
        self.defused = True
        for each in _waiting_for(self):
            if isinstance(each, Condition):  # its waiting processes may have left
                each.defused = True

    def uses(self, host: int) -> bool:
        """Whether a flow of the coflow starts or ends at a host."""
        flows = self.demand.flows
        return bool(np.any((flows["src"] == host) | (flows["dst"] == host)))

    def __repr__(self) -> str:
        return f"<Coflow {self.number} {self.name!r} of {self.owner.name!r}>"


def _waiting_for(event: simpy.Event) -> list[Any]:
    """Return the processes and conditions that wait for an event, directly or not."""
    found: list[Any] = [event]
    for each in found:  # the list grows in the loop
        if each is event or isinstance(each, Condition):
            for wait in each.callbacks or ():
                waits = getattr(wait, "__self__", None)
                if waits is not None and waits not in found:
                    found.append(waits)
    return found[1:]


# --- records -------------------------------------------------------------------------------

#: How many coflows that have ended are kept as objects at most: many make Python's garbage
#: collector slow.
_MOST_ENDED = 512


class Sent(NamedTuple):
    """A coflow as it is recorded, with the event of the fabric and the finish time in seconds."""

    number: int
    iteration: int
    name: str
    event: CoflowEvent
    finish_s: float


class ScriptRecorder(CoflowRecorder):
    """Records coflows, flows, links, decisions and computations, if asked to; see `CoflowRecorder`.

    It numbers coflows as they are submitted, and counts those of `jobs`. For the processes of jobs
    that netsim runs, it is the `JobRecorder`.
    """

    def __init__(self, record: Sequence[str], network: Topology, jobs: Sequence[Job]) -> None:
        super().__init__(record, network)
        self._jobs = jobs
        self._numbered = 0
        self._ended: list[Sent] = []
        self._number_of: dict[tuple[int, int, int], int] = {}  # by job, iteration and stage
        self.listener: Any = None  #: see `Recorder`

    def next_number(self) -> int:
        """Return the number of another coflow."""
        self._numbered += 1
        return self._numbered - 1

    @property
    def job_ids(self) -> Ints:
        """The ids of all jobs."""
        return np.arange(len(self._jobs))

    def _id_of(self, job: int) -> int:
        return job

    @property
    def coflows_of_job(self) -> Ints:
        """The number of completed coflows of each job."""
        return np.array([job.done for job in self._jobs], np.int64)

    def completed(self, sent: Sent) -> None:
        """Record a coflow that has completed."""
        job = self._jobs[sent.event.job]
        job.done += 1
        job.nbytes += sent.event.demand.payload
        if self._keeps_coflows:
            self._ended.append(sent)
            if len(self._ended) == _MOST_ENDED:
                self._pack_ended()

    # --- what processes of jobs report ------------------------------------------------------

    def number(self, job: JobProcess, iteration: int, stage: int) -> int:
        """The number of the coflow of a stage, from its submission until it is recorded."""
        return self._number_of[job.index, iteration, stage]

    def coflow_begun(self, job: JobProcess, iteration: int, stage: int) -> None:
        """Number a coflow that a job submits."""
        self._number_of[job.index, iteration, stage] = self.next_number()
        if self.listener is not None:
            self.listener.coflow_valid(job, iteration, stage)

    def coflow_ended(self, job: JobProcess, done: CompletedCoflow) -> None:
        """Note that a coflow has completed."""
        if self.listener is not None:
            self.listener.coflow_done(job, done.iteration, done.stage)

    def coflow_finished(self, job: JobProcess, done: CompletedCoflow) -> None:
        """Record a completed coflow."""
        number = self._number_of.pop((job.index, done.iteration, done.stage))
        self.completed(Sent(number, done.iteration, done.stages[done.stage].name, done.transfer,
                            done.finish))

    def operations_begun(self, operations: Operations) -> None:
        """Do nothing: names are numbered as they occur."""

    def job_finished(self, job: int, finish: float) -> None:
        """End the job of a process."""
        self._jobs[job].finish()  # type: ignore[attr-defined]

    # --- tables -----------------------------------------------------------------------------

    def pack(self) -> None:
        """Move all buffered records to their tables."""
        self._pack_ended()
        super().pack()

    def _pack_ended(self) -> None:
        """Move buffered coflows, and their flows, to their tables."""
        ended, self._ended = self._ended, []
        if ended:
            self._keep(self._rows_of(ended), self._flows_sent([sent.event for sent in ended]))

    def frame_of(self, coflows: Sequence[Sent]) -> pd.DataFrame:
        """Return a table of coflows that have not completed; unknown times are NaN."""
        rows = SpillingTable(self._rows["coflows"].dtype)
        rows.extend(packed(self._rows_of(coflows), rows.dtype))
        return LazyTable(rows, (), self._conversions("coflows", ())).frame()

    def other_coflows(self, coflows: Sequence[Coflow]) -> pd.DataFrame | None:
        """Return a table of cancelled coflows; None if coflows are not recorded."""
        return self._others([
            (coflow.number, coflow.job, 0, coflow.name, coflow.valid_s, coflow.start_s,
             coflow.ended_s, coflow.sent, "withdrawn") for coflow in coflows],
            {"coflow": "i8", **OF_OTHERS})

    def _rows_of(self, coflows: Sequence[Sent]) -> NDArray[Any]:
        events = [sent.event for sent in coflows]
        return coflow_rows(
            {"coflow": [sent.number for sent in coflows], "job": [event.job for event in events],
             "iteration": [sent.iteration for sent in coflows],
             "stage": [self._number(sent.name) for sent in coflows]},
            of_events(events) | {"finish_s": np.array([sent.finish_s for sent in coflows])})
