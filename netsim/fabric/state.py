"""What an allocator may know: read-only arrays over active coflows and flows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import AllocationError
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels import blocks, ordered
from netsim.fabric.policy import Event, Knowledge
from netsim.fabric.running import JobHosts, Running

__all__ = ["FabricState", "Floats", "Ints"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


class FabricState:
    """The fabric at one decision, as far as a policy may know it.

    Arrays have one entry per active coflow, shape (C,), or per unfinished flow, shape
    (F,). Coflows stand in order of (valid time, job, stage) and jobs are numbered by
    (arrival, id), so that a stable sort breaks ties as the field does. Flows stand
    coflow by coflow, in list order. All arrays are read-only.

    Parameters
    ----------
    table : FlowTable
        The rows to look at.
    now : float
        The instant, in seconds.
    knows : {"sent", "sizes", "jobs"}
        What the policy may see. Sizes that it may not see are NaN.
    events : Event
        What has happened since the last decision.
    running : Running, optional
        Which jobs run, and where; None if the policy is not told.

    Attributes
    ----------
    now : float
    events : Event
    """

    def __init__(self, table: FlowTable, now: float, knows: Knowledge = "sizes",
                 events: Event = Event.ANY, running: Running | None = None) -> None:
        table.settle()
        self._table = table
        self._knows = knows
        self._running = running
        self._rows = table.coflows
        self.now = now
        self.events = events

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.now:g} s: {len(self)} coflows, {self.flows} flows>"

    # --- coflows ---------------------------------------------------------------------

    @property
    def jobs(self) -> int:
        """The number of jobs that have an active coflow."""
        return self._table.active_jobs

    def running(self) -> JobHosts:
        """Return which jobs run, sending or computing, and on which hosts.

        Raises
        ------
        AllocationError
            Unless the policy declares ``sees_running``.
        """
        if self._running is None:
            raise AllocationError("running tells which jobs run, but the policy does not declare "
                                  "that it sees_running")
        return self._running.pairs()

    def __len__(self) -> int:
        """Return the number of active coflows."""
        return len(self._rows)

    def _sizes(self, values: NDArray[Any]) -> Floats:
        return _locked(np.full(len(values), np.nan) if self._knows == "sent" else values)

    @cached_property
    def job(self) -> Ints:
        """The job of each coflow; jobs are numbered by (arrival, id). Shape (C,)."""
        return _locked(self._rows["job"].copy())

    @cached_property
    def id(self) -> Ints:
        """A number that stays with the coflow as long as it is active. Shape (C,)."""
        return _locked(self._rows["key"].copy())

    @cached_property
    def order(self) -> Ints:
        """The place of each coflow in its job: by iteration, depth, release, id. Shape (C,)."""
        return _locked(self._rows["order"].copy())

    @cached_property
    def valid_s(self) -> Floats:
        """When each coflow became valid, in seconds. Shape (C,)."""
        return _locked(self._rows["valid"].copy())

    @cached_property
    def weight(self) -> Floats:
        """Each coflow's weight. Shape (C,)."""
        return _locked(self._rows["weight"].copy())

    @cached_property
    def deadline_s(self) -> Floats:
        """The instant by which each coflow is to finish, in seconds; inf if none. Shape (C,)."""
        return _locked(self._rows["deadline"].copy())

    @cached_property
    def width(self) -> Ints:
        """The number of unfinished flows of each coflow. Shape (C,)."""
        return _locked(self._rows["open"].copy())

    @cached_property
    def flow_count(self) -> Ints:
        """The number of flows of each coflow, finished or not. Shape (C,)."""
        return _locked(self._rows["flows"].copy())

    @cached_property
    def sent(self) -> Floats:
        """Bytes that each coflow has sent: its attained service. Shape (C,)."""
        return _locked(self._rows["total"] - self._table.bytes_left())

    @cached_property
    def total(self) -> Floats:
        """The size of each coflow, in bytes; NaN if the policy may not know. Shape (C,)."""
        return self._sizes(self._rows["total"].copy())

    @cached_property
    def remaining(self) -> Floats:
        """Bytes that each coflow has yet to send; NaN if it may not know. Shape (C,)."""
        return self._sizes(self._table.bytes_left())

    @cached_property
    def gamma(self) -> Floats:
        """Effective bottleneck of the remaining bytes at full capacities, in seconds. Shape (C,).

        The time that the coflow would take alone (Gamma); inf if it needs a link of
        capacity 0, NaN if the policy may not know sizes.
        """
        self._table.refresh()
        return self._sizes(self._rows["gamma"] * self._rows["left"])

    @cached_property
    def alone(self) -> Floats:
        """Gamma of each coflow when it became valid, in seconds; NaN if blind. Shape (C,)."""
        return self._sizes(self._rows["alone"].copy())

    @cached_property
    def longest(self) -> Floats:
        """The size of each coflow's longest flow, in bytes; NaN if blind. Shape (C,)."""
        return self._sizes(self._rows["longest"].copy())

    def ports(self, *, unfinished: bool = False) -> Ints:
        """Return min(number of senders, number of receivers) of each coflow. Shape (C,).

        Parameters
        ----------
        unfinished : bool
            Count those of unfinished flows only.
        """
        return ordered.ports(self._rows, self._table.flows, unfinished)

    @cached_property
    def job_arrival_s(self) -> Floats:
        """When the job of each coflow arrived, in seconds. Shape (C,)."""
        return _locked(self._table.jobs["arrival"][self._rows["job"]])

    @cached_property
    def job_attained(self) -> Floats:
        """Whole bytes that the job of each coflow has sent (S_m), active coflows included. (C,)."""
        return _locked(blocks.job_attained(self._rows, self._table.jobs))

    @cached_property
    def job_completed(self) -> Ints:
        """The number of completed coflows of the job of each coflow (Z_m). Shape (C,)."""
        return _locked(self._table.jobs["completed"][self._rows["job"]])

    @cached_property
    def job_longest_gamma(self) -> Floats:
        """The longest coflow that each job has emitted, in seconds alone; NaN if blind. (C,)."""
        return self._sizes(self._table.jobs["longest"][self._rows["job"]])

    @cached_property
    def job_ahead_s(self) -> Floats:
        """Seconds alone of the coflows that each job has yet to emit. Shape (C,).

        NaN unless the policy declares ``knows = "jobs"``.
        """
        ahead = self._table.jobs["ahead"][self._rows["job"]]
        return _locked(ahead if self._knows == "jobs" else np.full(len(ahead), np.nan))

    # --- flows and links -------------------------------------------------------------

    @cached_property
    def _open(self) -> tuple[Ints, Ints]:
        return self._table.open_flows()

    @cached_property
    def flows(self) -> int:
        """The number of unfinished flows."""
        return int(self._rows["open"].sum())

    @cached_property
    def coflow(self) -> Ints:
        """The coflow of each flow, as an index into the coflow arrays. Shape (F,)."""
        return _locked(self._open[1])

    @cached_property
    def src(self) -> Ints:
        """The host that each flow leaves. Shape (F,)."""
        return _locked(self._table.flows["src"][self._open[0]].astype(np.int64))

    @cached_property
    def dst(self) -> Ints:
        """The host that each flow reaches. Shape (F,)."""
        return _locked(self._table.flows["dst"][self._open[0]].astype(np.int64))

    @cached_property
    def flow_size(self) -> Floats:
        """The size of each flow, in bytes; NaN if the policy may not know. Shape (F,)."""
        return self._sizes(self._table.flows["size"][self._open[0]])

    @cached_property
    def _flow_remaining(self) -> Floats:
        index, owner = self._open
        return self._table.flows["remaining"][index] * self._rows["left"][owner]

    @cached_property
    def flow_remaining(self) -> Floats:
        """Bytes that each flow has yet to send; NaN if it may not know. Shape (F,)."""
        return self._sizes(self._flow_remaining.copy())

    @cached_property
    def flow_sent(self) -> Floats:
        """Bytes that each flow has sent. Shape (F,)."""
        return _locked(self._table.flows["size"][self._open[0]] - self._flow_remaining)

    @cached_property
    def paths(self) -> tuple[Ints, Ints]:
        """The links that each flow crosses, in compressed rows ``(ptr, links)``.

        Flow f crosses ``links[ptr[f]:ptr[f + 1]]``.
        """
        flows, index = self._table.flows, self._open[0]  # gathering whole rows takes far longer
        counts = flows["hops"][index].astype(np.int64)
        ptr = np.concatenate(([0], np.cumsum(counts)))
        at = np.repeat(flows["hop"][index] - ptr[:-1], counts) + np.arange(ptr[-1])
        return _locked(ptr), _locked(self._table.hops["link"][at])

    @cached_property
    def capacity(self) -> Floats:
        """Bytes per second of each link, as of now. Shape (L,)."""
        return _locked(self._table.capacity.copy())
