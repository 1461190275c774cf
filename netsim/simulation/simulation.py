"""`simulate`, and `Simulation`: a run that can be held, inspected, changed and forked."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.brief import MOST_ROWS, shown
from netsim.base.lazy import simpy
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import Node, check_flag, known_names, plain, plain_numbers, refuse_several
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
from netsim.errors import InputError, closed_by, interruption_of
from netsim.fabric.allocator import Allocator, Undecided
from netsim.network import Topology
from netsim.results.result import Result
from netsim.results.tables import RECORDS
from netsim.simulation.arguments import Arguments, target_of
from netsim.simulation.events import (
    EVENT_KINDS,
    FaultEvent,
    RunEvent,
    by_hand,
    capacity_by_hand,
    check_kind,
)
from netsim.simulation.progress import check_progress, show_progress
from netsim.simulation.run import Target, interrupt_with_status, run_info
from netsim.text import said
from netsim.workload import JobSpec, Workload

if TYPE_CHECKING:
    import pandas as pd

    from netsim.fabric.view import FabricView

#: Steps, or coflows, between two reports of progress.
_REPORT_EVERY = 4096

_BY_CLOSE = "the run is closed, by close(); make a new Simulation"

Listener = Callable[[RunEvent], Any]


class Simulation:
    """A run of jobs that can be held, inspected, changed, listened to and forked.

    `netsim.simulate` is ``Simulation(...).run(until, progress).result()``. Holding a run changes
    nothing: it continues, to the last bit, like a run that was never held.

    Parameters
    ----------
    network, workload, allocator, observe_interval, seed, record, timeline, events, stragglers, \
check, scheduler, placement, execution, epsilon, transport, preemption
        As for `netsim.simulate`.

    Raises
    ------
    InputError
        If the network, the workload or an argument is invalid.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(3, "8Mbps")
    >>> jobs = [netsim.JobSpec(k, hosts=range(3), stages=[
    ...     netsim.Stage("push", [(k, 2, 3e6)])]) for k in range(2)]
    >>> sim = netsim.Simulation(net, jobs).run(until=3)
    >>> sim.active()[["job", "left_bytes", "rate"]]
       job  left_bytes      rate
    0    0   1500000.0  500000.0
    1    1   1500000.0  500000.0
    >>> other = sim.fork()
    >>> other.set_capacity("ingress-2", "16Mbps")
    >>> [each.run().result().jobs["finish_s"][1] for each in (sim, other)]
    [np.float64(6.0), np.float64(4.5)]
    """

    # Slots refuse a misspelled attribute, such as `sim.alocator = ...`.
    __slots__ = ("__weakref__", "_begun", "_closed", "_limit", "_listeners", "_open_target",
                 "_stepping", "_steps", "_wall_s")

    @plain_numbers
    def __init__(self, network: Topology | Cluster | EdgeCloud | str | Path,
                 workload: Workload | Sequence[JobSpec] | EdgeWorkload | Sequence[EdgeJob] | str
                 | Path, *,
                 allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
                 observe_interval: Quantity = 0, seed: int = 0,
                 record: Sequence[str] = ("jobs", "coflows"), timeline: bool = False,
                 events: Sequence[FaultEvent | Mapping[str, Any]] = (),
                 stragglers: Mapping[Node, float] | None = None, check: bool = True,
                 scheduler: Any = None, placement: Any = None, execution: Any = None,
                 epsilon: float = 0.0, transport: Any = "constant", preemption: Any = None
                 ) -> None:
        self._open_target: Target = target_of(network, workload, Arguments(
            allocator, observe_interval, seed, None, record, timeline, events, stragglers, check,
            scheduler, placement, execution, epsilon, transport, preemption))
        self._closed = ""  # why the run can neither continue nor be inspected
        self._begun = self._stepping = False
        self._steps, self._wall_s, self._limit = 0, 0.0, math.inf
        self._listeners: dict[str, list[Listener]] = {}

    @property
    def _target(self) -> Target:
        if self._closed:
            raise InputError(self._closed)
        return self._open_target

    # --- time passes ------------------------------------------------------------------

    @known_names
    def run(self, until: Quantity | None = None,
            progress: bool | Callable[[int, int], None] = False) -> Simulation:
        """Run until all jobs have finished, or until a given time; return the simulation.

        Parameters
        ----------
        until : quantity, optional
            Time at which to hold the run, after all events of that time.
        progress : bool or callable
            As for `netsim.simulate`.

        Raises
        ------
        InputError
            If `until` is in the past, or not after 0.
        AllocationError, StalledError, Interrupted
            As `netsim.simulate` does. An error in the middle of an instant, such as one of a policy
            or a listener, or Ctrl-C, closes the run: it can then neither continue nor be inspected.
        """
        limit = math.inf if until is None else parse_seconds(until, "until", strict=True)
        target, started = self._target, time.perf_counter()
        self._refuse_while_stepping("run")
        if limit < target.now:
            raise InputError(f"until: {limit:g} s has passed; it is {target.now:g} s")
        # An agent that takes the place of a policy holds the run at the same time repeatedly.
        if limit < math.inf and not target.ended and not target.now < limit == self._limit:
            target.hold_at(limit)
        self._limit = limit
        with (interrupt_with_status(target.so_far),
              show_progress(progress, target.total, target.counts) as report):
            self._go(limit, report)
        self._wall_s += time.perf_counter() - started
        return self

    def _go(self, limit: float, report: Callable[[int, int], None]) -> None:
        target, reported = self._target, self._target.done
        self._begin()
        self._stepping = True
        try:
            while not target.ended and target.next_at() <= limit:
                self._step()
                if self._steps % _REPORT_EVERY == 0 or target.done > reported + _REPORT_EVERY:
                    reported = target.done
                    report(reported, target.total)
            if target.ended:
                self._act(target.settle)
        finally:
            self._stepping = False
        report(target.done, target.total)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._act(self._target.begin)

    def _step(self) -> None:
        try:
            self._act(self._target.step)
        except simpy.core.EmptySchedule:
            raise self._target.stalled() from None
        self._steps += 1

    def _change(self, change: Callable[..., None], *given: Any) -> None:
        """Change the target, which refuses invalid input before it changes anything."""
        self._act(partial(change, *given), InputError)

    def _act(self, act: Callable[[], None], *unless: type[Exception]) -> None:
        """Call a function; close the run if an error, other than `unless`, stops it halfway."""
        # These are raised before anything is done.
        harmless: tuple[type[Exception], ...] = (Undecided, simpy.core.EmptySchedule, *unless)
        try:
            act()
        except harmless:
            raise
        except BaseException as error:
            self._closed = self._closed or closed_by(
                "run", interruption_of(error) or error, self._target.now,
                "Make a new Simulation, or continue a fork that was made before.")
            raise

    def _refuse_while_stepping(self, what: str) -> None:
        if self._stepping:
            raise InputError(f"{what}: not possible in a listener, in the middle of an instant; "
                             "do it between two runs, or in a loop over events()")

    @property
    def now(self) -> float:
        """The time in seconds; once all jobs have finished, the time at which the last did."""
        return self._target.now

    @property
    def ended(self) -> bool:
        """Whether all jobs have finished."""
        return self._target.ended

    @property
    def env(self) -> simpy.Environment:
        """The SimPy environment of the run, for your own processes beside it.

        Events of these processes are events of the run. The run ends when its last job ends, even
        if they have not ended.

        Raises
        ------
        InputError
            On an edge-cloud whose transport has no environment.
        """
        return self._target.env

    # --- to look ----------------------------------------------------------------------

    def active(self) -> pd.DataFrame:
        """Return the coflows that are active now, the oldest first.

        Columns are those of `netsim.Fabric.active`. While the state of a job moves on a cluster,
        its coflow has the stage ``"state"`` and the id -1, as results do not number it.
        """
        return self._target.active()

    def flows(self) -> pd.DataFrame:
        """Return the flows that have not ended; columns are those of `netsim.Fabric.flows`."""
        return self._target.flows()

    def links(self) -> pd.DataFrame:
        """Return all links; columns are those of `netsim.Fabric.links`."""
        return self._target.links()

    def jobs(self) -> pd.DataFrame:
        """Return all jobs as they are now: the table `jobs` of a result, with a column `state`.

        The state is ``"to come"``, ``"waiting"`` (for GPUs, or for a lost host), ``"running"`` or
        ``"done"``; on a cluster also ``"restoring"`` or ``"saving"`` (its progress). On a cluster,
        `gpus`, `servers` and `placement` are those that a job holds, or those that it held last.
        """
        return self._target.jobs_now()

    def view(self) -> FabricView:
        """Return the view that the allocator would get now."""
        return self._target.view()

    def result(self) -> Result:
        """Return the tables recorded until now; see `netsim.Result`.

        May be called at any time, without any effect on the run. Unknown times are NaN.
        """
        target = self._target
        shown = target if target.ended else target.stopped()
        tables = shown.tables()
        run = run_info(shown.identity(), shown.cost(), seed=target.seed,
                       workload_seed=target.workload_seed,
                       stopped_at_s=None if target.ended else target.now, steps=self._steps,
                       wall_s=self._wall_s)
        always = dict.fromkeys(RECORDS)
        return Result(**{**always, **tables}, run=run)

    def see_symmetry(self) -> None:
        """Simulate identical ranks once, as `netsim.simulate` does; call it before the first step.

        The run must then not be inspected or changed before its end; this is not checked.
        """
        self._target.fold_ranks()

    def close(self) -> None:
        """Free the memory of the run, which can then neither continue nor be inspected.

        Without this call, Python's garbage collector frees the memory some time after the last use.
        Results that `result` has returned remain valid.

        Nothing is raised if an error has closed the run: in a ``finally``, that would hide it.

        Raises
        ------
        InputError
            If it has been called before, as all methods do then.
        """
        if self._closed == _BY_CLOSE:
            raise InputError(_BY_CLOSE)
        self._open_target.close()
        self._closed = self._closed or _BY_CLOSE

    # --- to change --------------------------------------------------------------------

    def submit(self, job: JobSpec | EdgeJob) -> None:
        """Add a job that arrives now or later.

        If a job is submitted before it arrives, the run is the same as if the workload had
        contained it from the beginning.

        Raises
        ------
        InputError
            If its arrival is in the past, its id is taken, or it cannot run here.
        """
        self._change(self._target.submit, job)

    def set_capacity(self, link: Node, capacity: Quantity) -> None:
        """Change the capacity of a link now; 0 is a failure.

        Parameters
        ----------
        link : str, int or tuple
            Name or number of the link, or its two nodes.
        capacity : quantity
            ``"1Gbps"``, or bytes per second.
        """
        self._change(self._target.change,
                     capacity_by_hand(self._target.now, link, plain(capacity)))

    @known_names
    def fail(self, *, link: Node | None = None, host: Node | None = None,
             switch: Node | None = None, restart: bool = False) -> None:
        """Fail a link, or a host or switch and all of its links, now; see `netsim.FaultEvent`."""
        self._change(self._target.change, by_hand(
            "fail", self._target.now, kind="fail", link=link, host=host, switch=switch,
            restart=restart))

    @known_names
    def repair(self, *, link: Node | None = None, host: Node | None = None,
               switch: Node | None = None) -> None:
        """Restore the nominal capacity of a link, or of all links of a host or switch."""
        self._change(self._target.change, by_hand(
            "repair", self._target.now, kind="repair", link=link, host=host, switch=switch))

    @property
    def allocator(self) -> Allocator:
        """The policy that decides the bandwidth of flows; can be replaced."""
        allocator: Allocator = self._target.allocator
        return allocator

    @allocator.setter
    def allocator(self, given: str | Mapping[str, Any] | Allocator | type[Allocator]) -> None:
        self._change(setattr, self._target, "allocator", given)

    @property
    def observe_interval(self) -> float:
        """The observe interval in seconds; can be changed."""
        interval: float = self._target.observe_interval
        return interval

    @observe_interval.setter
    def observe_interval(self, given: Quantity) -> None:
        self._change(setattr, self._target, "observe_interval", plain(given))

    # --- to listen --------------------------------------------------------------------

    def on(self, kind: str, function: Listener) -> None:
        """Call a function with each event of a kind from now on, at its time.

        The function may inspect the run and change it.

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
        self._listeners.setdefault(check_kind(kind), []).append(function)
        self._target.listen(self._hear)

    def _hear(self, event: RunEvent) -> None:
        for function in tuple(self._listeners.get(event.kind, ())):
            self._act(partial(function, event))

    def events(self) -> Iterator[RunEvent]:
        """Continue the run, and yield its events one by one, until all jobs have finished.

        When an event has been yielded, the run is held at the time of the event, and may be
        inspected, changed and forked. After a ``break``, the run can be continued in any way.
        """
        found: deque[RunEvent] = deque()
        hear, settled = partial(self._note, found), False
        for kind in EVENT_KINDS:
            self.on(kind, hear)
        try:
            self._begin()
            while True:
                while found:
                    yield found.popleft()
                if settled and self._target.ended:
                    break
                self._refuse_while_stepping("events")
                self._stepping = True
                try:
                    settled = self._target.ended
                    if settled:
                        self._act(self._target.settle)
                    else:
                        self._step()
                finally:
                    self._stepping = False
        finally:
            for kind in EVENT_KINDS:
                self._listeners[kind].remove(hear)
            if not self._closed and not any(self._listeners.values()):
                self._target.listen(None)

    def _note(self, found: deque[RunEvent], event: RunEvent) -> None:
        """Store an event, and hold the run before anything happens later."""
        found.append(event)
        self._target.hold_at(self._target.now)

    # --- copies -----------------------------------------------------------------------

    def fork(self) -> Simulation:
        """Return an independent copy with the same future, to the last bit.

        Time and memory depend on what is active now, not on the length of the past. Policies are
        copied, listeners are not.

        Raises
        ------
        InputError
            If a listener calls it, or if a policy or a SimPy process of your own cannot be copied.
        """
        self._refuse_while_stepping("fork")
        other, target = copy(self), self._target
        memo = {id(each): each for each in target.shared()}
        for kind, policy in target.policies().items():
            try:
                deepcopy(policy, memo)
            except Exception as error:
                raise InputError(f"the run cannot be forked, as {kind} {type(policy).__name__} "
                                 f"cannot be copied: {error}") from error
        other._open_target = deepcopy(target, memo)
        other._listeners = {}
        other._target.listen(None)
        return other

    def __repr__(self) -> str:
        if self._closed:
            return "<Simulation, closed>"
        target = self._target
        return (f"<Simulation at {target.now:g} s: {target.done:,} of {target.total:,} "
                f"{target.counts} done>")

    def _repr_html_(self) -> str:
        if self._closed:
            return escape(repr(self))
        jobs = self.jobs()
        left = jobs[jobs["state"] != "done"]
        jobs = left if len(left) else jobs  # the unfinished jobs, as long as there are some
        return shown(repr(self), jobs.head(MOST_ROWS), len(jobs))


@plain_numbers
def simulate(network: Topology | Cluster | EdgeCloud | str | Path,
             workload: Workload | Sequence[JobSpec] | EdgeWorkload | Sequence[EdgeJob] | str
             | Path, *,
             allocator: str | Mapping[str, Any] | Allocator | type[Allocator] = "maxmin",
             observe_interval: Quantity = 0, seed: int = 0, until: Quantity | None = None,
             record: Sequence[str] = ("jobs", "coflows"), timeline: bool = False,
             events: Sequence[FaultEvent | Mapping[str, Any]] = (),
             stragglers: Mapping[Node, float] | None = None, check: bool = True,
             scheduler: Any = None, placement: Any = None, execution: Any = None,
             epsilon: float = 0.0, transport: Any = "constant", preemption: Any = None,
             symmetry: bool = True,
             progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate a workload on a network, on the servers of a cluster, or on an edge-cloud.

    Parameters
    ----------
    network : Topology, Cluster, EdgeCloud, str or path
        A network, or the name or file of one, see `read_network`; a cluster of servers with GPUs;
        or an edge-cloud. On an edge-cloud, `placement` and `execution` are not supported.
        `allocator`, `observe_interval`, `events`, and the tables links and decisions in `record`
        are supported there only with ``transport="fabric"``.
    workload : Workload, sequence of JobSpec, str or path
        A workload, a sequence of jobs, or the name or file of a workload, see `read_workload`. On
        an edge-cloud, an `EdgeWorkload` or a sequence of `EdgeJob`.
    allocator : str, mapping, Allocator or class
        Policy that decides the bandwidth of flows; see `netsim.allocators.make_allocator`.
    observe_interval : quantity
        If positive, such as ``"10ms"``, events are noticed and bandwidth is allocated only at
        multiples of this interval. If 0, this happens at the exact instants of events.
    seed : int
        Seed of the placement of jobs without hosts, and of the workload if it is given by name or
        path.
    until : quantity, optional
        Time at which to stop, whether or not all jobs have finished.
    record : sequence of str
        Tables to keep: jobs (kept always), coflows, flows, links, decisions; see `Result`. On an
        edge-cloud, the tables chunks, training, held, workers, servers and ps are always kept, and
        may be named.
    timeline : bool
        Whether to keep the coflows, links and decisions that `netsim.write_timeline` needs, even if
        `record` does not name these tables. This does not change the run. If links are kept only
        for the timeline, their rates are means between events. If decisions are kept only for the
        timeline, those that do not change the allocation may be left out.
    events : sequence of FaultEvent or mapping
        Changes, failures and repairs of links and hosts: ``{"at": "5s", "kind": "fail", "host": 3,
        "restart": True}``, ``{"at": "7s", "link": "egress-3", "capacity": "1Gbps"}``.
    stragglers : mapping of int or str to float, optional
        Factors by which computation is slower on some hosts, or servers of a cluster, given by
        number or name: ``{3: 2.0}``.
    check : bool
        Whether to check that each allocation is feasible, which costs a few percent of the run.
    scheduler : str, mapping or object, optional
        On a cluster, the policy that decides when jobs start; ``"fifo"`` by default. On an
        edge-cloud, the policy that decides where and when jobs or their chunks train;
        ``"a-online"`` by default. See `netsim.schedulers.registry.make_scheduler`.
    placement : str, mapping or Placement, optional
        On a cluster, the policy that chooses the GPUs of a job, for schedulers that do not choose
        them; see `netsim.placements.registry.make_placement`. The default is that of the
        scheduler, or ``"first-fit"``.
    execution : str or mapping, optional
        On a cluster, how placed jobs run: by the formulas of ``"rar-contention"`` or ``"asrpt"``,
        without an allocator; or as coflows on the ``"fabric"``, with the allocator. The default is
        ``"rar-contention"`` if all jobs are rings, which it can run, or else ``"fabric"``. See
        `netsim.engine.registry.make_execution`.
    epsilon : float
        On an edge-cloud, the speed-up of workers, at least 0: training takes 1 / (1 + epsilon) of
        its nominal time.
    transport : str, mapping or object
        On an edge-cloud, how chunks reach workers and exchange gradients: in nominal times
        (``"constant"``), or as flows over the links (``"fabric"``). See
        `netsim.edge.registry.make_transport`.
    preemption : mapping or Preemption, optional
        On a cluster, what jobs keep when they are preempted or lose a server, and what it costs,
        such as ``{"keep": "fraction", "checkpoint_s": "5s", "restore_s": "10s"}``; see
        `netsim.engine.preemption.Preemption`. By default, they keep whole iterations, at no cost.
    symmetry : bool
        Whether identical ranks of a job made by `netsim.llm_job` may be simulated once, if no other
        job uses their links. This changes no result. It applies to networks under max-min fairness,
        if flows, links and decisions are not recorded.
    progress : bool or callable
        Whether to show a progress bar on a terminal or in a notebook; or a function to call with
        the number of coflows done and the number of all coflows. On a cluster or an edge-cloud,
        these are numbers of jobs.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the network, the workload or an argument is invalid.
    AllocationError
        If the allocator returns rates that are not feasible; the message names it.
    StalledError
        If coflows are pending, but none can send and no event is left.
    Interrupted
        On Ctrl-C; a `KeyboardInterrupt` with the progress of the run in its message.

    Examples
    --------
    >>> import netsim
    >>> net = netsim.big_switch(2, "8Mbps")
    >>> job = netsim.JobSpec(0, stages=[netsim.Stage("push", [(0, 1, 3e6)])])
    >>> netsim.simulate(net, netsim.Workload([job])).jobs["jct_s"][0]
    np.float64(3.0)
    """
    check_flag(symmetry, "symmetry")
    refuse_several(until, "until")
    check_progress(progress)
    sim = Simulation(
        network, workload, allocator=allocator, observe_interval=observe_interval, seed=seed,
        record=record, timeline=timeline, events=events, stragglers=stragglers, check=check,
        scheduler=scheduler, placement=placement, execution=execution, epsilon=epsilon,
        transport=transport, preemption=preemption)
    if symmetry:
        sim.see_symmetry()
    result = sim.run(until, progress).result()
    sim.close()
    return result
