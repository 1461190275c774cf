"""What users do with a run while it goes on, in `netsim.Simulation` and in `netsim.Fabric`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from netsim.base.units import Quantity
from netsim.base.values import Node, as_choice, known_names, plain
from netsim.errors import InputError
from netsim.fabric.allocator import Allocator
from netsim.simulation.events import EVENT_KINDS, FaultEvent, RunEvent
from netsim.simulation.run import Run
from netsim.text import said

if TYPE_CHECKING:
    import pandas as pd

    from netsim.fabric.view import FabricView

Listener = Callable[[RunEvent], Any]


class RunHandle:
    """A run as its user looks at it, changes it and listens to it."""

    # Slots refuse a misspelled attribute, such as `sim.alocator = ...`.
    __slots__ = ("__weakref__", "_listeners", "_open_run")

    def __init__(self, run: Run) -> None:
        self._open_run = run
        self._listeners: dict[str, list[Listener]] = {}

    @property
    def _run(self) -> Run:
        """The run, unless it can neither be inspected nor changed now."""
        raise NotImplementedError

    def _change(self, change: Callable[..., Any], *given: Any) -> Any:
        """Call a method of the run that refuses invalid input before it changes anything."""
        raise NotImplementedError

    def _call(self, function: Listener, event: RunEvent) -> None:
        """Call a listener."""
        raise NotImplementedError

    # --- to look ----------------------------------------------------------------------

    def active(self) -> pd.DataFrame:
        """Return the coflows that are active now, the oldest first.

        Columns: coflow, job, stage (its name), valid_s, start_s, bytes, left_bytes, rate (bytes per
        second, of all its flows), flows (number of unfinished flows), gamma_s (effective bottleneck
        of the bytes left), deadline_s. Coflows submitted at this instant have no rate yet. While
        the state of a job moves on a cluster, its coflow has the stage ``"state"`` and the id -1,
        as results do not number it.
        """
        return self._run.active()

    def flows(self) -> pd.DataFrame:
        """Return the flows that have not ended: coflow, job, flow, src, dst, bytes, left_bytes,
        rate.
        """
        return self._run.flows()

    def links(self) -> pd.DataFrame:
        """Return all links: link (its name), capacity, rate (bytes per second), utilisation (NaN
        for dead links), flows.
        """
        return self._run.links()

    def jobs(self) -> pd.DataFrame:
        """Return all jobs as they are now: the table `jobs` of a result, with a column `state`.

        The state is ``"to come"``, ``"waiting"`` (for GPUs, or for a lost host), ``"running"`` or
        ``"done"``; on a cluster also ``"restoring"`` or ``"saving"`` (its progress). On a cluster,
        `gpus`, `servers` and `placement` are those that a job holds, or those that it held last.
        On a `netsim.Fabric`, a job is there from its arrival on; the state of a job of one coflow
        that was cancelled is ``"cancelled"``.
        """
        return self._run.jobs_now()

    def view(self) -> FabricView:
        """Return the view that the allocator would get now."""
        return self._run.view()

    # --- to change --------------------------------------------------------------------

    def set_capacity(self, link: Node, capacity: Quantity) -> None:
        """Change the capacity of a link now; 0 is a failure.

        Parameters
        ----------
        link : str, int or tuple
            Name or number of the link, or its two nodes.
        capacity : quantity
            ``"1Gbps"``, or bytes per second.
        """
        if link is None:
            raise InputError("set_capacity: link must be a name or a number, not None")
        self._happen("set_capacity", link=link, capacity=plain(capacity))

    @known_names
    def fail(self, *, link: Node | None = None, host: Node | None = None,
             switch: Node | None = None, restart: bool = False) -> None:
        """Fail a link, or a host or switch and all of its links, now; see `netsim.FaultEvent`.

        Flows take other paths, or wait for the repair if there are none.
        """
        self._happen("fail", kind="fail", link=link, host=host, switch=switch, restart=restart)

    @known_names
    def repair(self, *, link: Node | None = None, host: Node | None = None,
               switch: Node | None = None) -> None:
        """Restore the nominal capacity of a link, or of all links of a host or switch."""
        self._happen("repair", kind="repair", link=link, host=host, switch=switch)

    def _happen(self, call: str, **about: Any) -> None:
        """Let a fault event happen now; errors begin with the name of the method."""
        run = self._run
        try:
            event = FaultEvent(run.now, **about)
        except InputError as error:
            raise type(error)(f"{call}: {str(error).removeprefix('event: ')}") from None
        self._change(run.change, event)

    @property
    def allocator(self) -> Allocator:
        """The policy that decides the bandwidth of flows; can be replaced."""
        return self._run.allocator

    @allocator.setter
    def allocator(self, given: str | Mapping[str, Any] | Allocator | type[Allocator]) -> None:
        self._change(self._run.set_allocator, given)

    @property
    def observe_interval(self) -> float:
        """The observe interval in seconds; can be changed."""
        return self._run.observe_interval

    @observe_interval.setter
    def observe_interval(self, given: Quantity) -> None:
        self._change(self._run.set_observe_interval, plain(given))

    # --- to listen --------------------------------------------------------------------

    def on(self, kind: str, function: Listener) -> None:
        """Call a function with each event of a kind from now on, at its time.

        The function may inspect the run and change it. On a `netsim.Fabric` no job is preempted.

        Parameters
        ----------
        kind : {"job-arrived", "job-started", "job-preempted", "job-done", "coflow-valid", \
"coflow-done", "decision", "capacity"}
        function : callable
            Takes a `netsim.RunEvent`.

        Raises
        ------
        InputError
            If there is no such kind, or the function is not callable.
        """
        if not callable(function):
            raise InputError(f"the listener for {said(kind)} must be a function, not "
                             f"{said(function)}")
        known = as_choice(kind, "kind of event", EVENT_KINDS, "kind")
        self._run.listen(self._hear)
        self._listeners.setdefault(known, []).append(function)

    def _hear(self, event: RunEvent) -> None:
        for function in tuple(self._listeners.get(event.kind, ())):
            self._call(function, event)
