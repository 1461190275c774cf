"""`simulate`, and `Simulation`: a run that can be held, inspected, changed and forked."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy, deepcopy
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.brief import MOST_ROWS, shown
from netsim.base.lazy import simpy
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import Node, known_names
from netsim.errors import InputError, closed_by, interruption_of
from netsim.fabric.allocator import Allocator, Undecided
from netsim.network import Topology
from netsim.results.result import Result
from netsim.simulation.events import EVENT_KINDS, FaultEvent, RunEvent
from netsim.simulation.handle import Listener, RunHandle
from netsim.simulation.progress import check_progress, show_progress
from netsim.simulation.run import Run, interrupt_with_status
from netsim.simulation.run_spec import RunSpec
from netsim.simulation.targets import make_run
from netsim.workload import JobSpec, Workload

if TYPE_CHECKING:
    from netsim.cluster import Cluster
    from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload

#: Steps, or coflows, between two reports of progress.
_REPORT_EVERY = 4096

_BY_CLOSE = "the run is closed, by close(); make a new Simulation"


class Simulation(RunHandle):
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

    __slots__ = ("_begun", "_closed", "_limit", "_stepping", "_steps", "_wall_s")

    @known_names
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
        self._open(RunSpec(
            network=network, workload=workload, allocator=allocator,
            observe_interval=observe_interval, seed=seed, record=record, timeline=timeline,
            events=events, stragglers=stragglers, check=check, scheduler=scheduler,
            placement=placement, execution=execution, epsilon=epsilon, transport=transport,
            preemption=preemption))

    @classmethod
    def of(cls, spec: RunSpec) -> Simulation:
        """Make the simulation of a run that is described."""
        made = cls.__new__(cls)
        made._open(spec)
        return made

    def _open(self, spec: RunSpec) -> None:
        super().__init__(make_run(spec))
        self._closed = ""  # why the run can neither continue nor be inspected
        self._begun = self._stepping = False
        self._steps, self._wall_s, self._limit = 0, 0.0, math.inf

    @property
    def _run(self) -> Run:
        if self._closed:
            raise InputError(self._closed)
        return self._open_run

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
        self._run_until(limit, progress)
        return self

    def _run_until(self, limit: float, progress: bool | Callable[[int, int], None]) -> None:
        run, started = self._run, time.perf_counter()
        self._refuse_while_stepping("run")
        if limit < run.now:
            raise InputError(f"until: {limit:g} s has passed; it is {run.now:g} s")
        # An agent that takes the place of a policy holds the run at the same time repeatedly.
        if limit < math.inf and not run.ended and not run.now < limit == self._limit:
            run.hold_at(limit)
        self._limit = limit
        with (interrupt_with_status(run.so_far),
              nullcontext() if progress is False else
              show_progress(progress, run.total, run.counts) as report):
            self._go(limit, report if progress else None)
        self._wall_s += time.perf_counter() - started

    def _go(self, limit: float, report: Callable[[int, int], None] | None) -> None:
        run, reported = self._run, 0 if report is None else self._run.done
        self._begin()
        self._stepping = True
        try:
            while not (ended := run.ended) and run.next_at() <= limit:
                self._step()
                if report is not None and (self._steps % _REPORT_EVERY == 0
                                           or run.done > reported + _REPORT_EVERY):
                    reported = run.done
                    report(reported, run.total)
            if ended:
                self._act(run.settle)
        finally:
            self._stepping = False
        if report is not None:
            report(run.done, run.total)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._act(self._run.begin)

    def _step(self) -> None:
        try:
            self._act(self._run.step)
        except simpy.core.EmptySchedule:
            raise self._run.stalled() from None
        self._steps += 1

    def _change(self, change: Callable[..., Any], *given: Any) -> None:
        self._act(partial(change, *given), InputError)

    def _call(self, function: Listener, event: RunEvent) -> None:
        self._act(partial(function, event))

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
                "run", interruption_of(error) or error, self._run.now,
                "Make a new Simulation, or continue a fork that was made before.")
            raise

    def _refuse_while_stepping(self, what: str) -> None:
        if self._stepping:
            raise InputError(f"{what}: not possible in a listener, in the middle of an instant; "
                             "do it between two runs, or in a loop over events()")

    @property
    def now(self) -> float:
        """The time in seconds; once all jobs have finished, the time at which the last did."""
        return self._run.now

    @property
    def ended(self) -> bool:
        """Whether all jobs have finished."""
        return self._run.ended

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
        return self._run.env

    # --- the result -------------------------------------------------------------------

    def result(self) -> Result:
        """Return the tables recorded until now; see `netsim.Result`.

        May be called at any time, without any effect on the run. Unknown times are NaN.
        """
        return self._run.result(self._steps, self._wall_s)

    def see_symmetry(self) -> None:
        """Simulate identical ranks once, as `netsim.simulate` does; call it before the first step.

        The run must then not be inspected or changed before its end; this is not checked.
        """
        self._run.fold_ranks()

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
        self._open_run.close()
        self._closed = self._closed or _BY_CLOSE

    # --- to change, and to listen -----------------------------------------------------

    def submit(self, job: JobSpec | EdgeJob) -> None:
        """Add a job that arrives now or later.

        If a job is submitted before it arrives, the run is the same as if the workload had
        contained it from the beginning.

        Raises
        ------
        InputError
            If its arrival is in the past, its id is taken, or it cannot run here.
        """
        self._change(self._run.submit, job)

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
                if settled and self._run.ended:
                    break
                self._refuse_while_stepping("events")
                self._stepping = True
                try:
                    settled = self._run.ended
                    if settled:
                        self._act(self._run.settle)
                    else:
                        self._step()
                finally:
                    self._stepping = False
        finally:
            for kind in EVENT_KINDS:
                self._listeners[kind].remove(hear)
            if not self._closed and not any(self._listeners.values()):
                self._run.listen(None)

    def _note(self, found: deque[RunEvent], event: RunEvent) -> None:
        """Store an event, and hold the run before anything happens later."""
        found.append(event)
        self._run.hold_at(self._run.now)

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
        other, run = copy(self), self._run
        memo = {id(each): each for each in run.shared()}
        for kind, policy in run.policies().items():
            try:
                deepcopy(policy, memo)
            except Exception as error:
                raise InputError(f"the run cannot be forked, as {kind} {type(policy).__name__} "
                                 f"cannot be copied: {error}") from error
        other._open_run = deepcopy(run, memo)
        other._listeners = {}
        other._run.listen(None)
        return other

    def __repr__(self) -> str:
        if self._closed:
            return "<Simulation, closed>"
        run = self._run
        return (f"<Simulation at {run.now:g} s: {run.done:,} of {run.total:,} "
                f"{run.counts} done>")

    def _repr_html_(self) -> str:
        if self._closed:
            return escape(repr(self))
        jobs = self.jobs()
        left = jobs[jobs["state"] != "done"]
        jobs = left if len(left) else jobs  # the unfinished jobs, as long as there are some
        return shown(repr(self), jobs.head(MOST_ROWS), len(jobs))


@known_names
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
    return simulate_spec(RunSpec(
        network=network, workload=workload, allocator=allocator, observe_interval=observe_interval,
        seed=seed, until=until, record=record, timeline=timeline, events=events,
        stragglers=stragglers, check=check, scheduler=scheduler, placement=placement,
        execution=execution, epsilon=epsilon, transport=transport, preemption=preemption,
        symmetry=symmetry), progress)


def simulate_spec(spec: RunSpec, progress: bool | Callable[[int, int], None] = False) -> Result:
    """Simulate a run that is described; see `simulate`."""
    if progress is not False:
        check_progress(progress)
    sim = Simulation.of(spec)
    if spec.symmetry:
        sim.see_symmetry()
    sim._run_until(math.inf if spec.until is None else float(spec.until), progress)
    result = sim.result()
    sim.close()
    return result
