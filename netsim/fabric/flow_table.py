"""The table of active coflows and flows, and the engines that it keeps between decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.compiling import Direct
from netsim.fabric.allocation import PriorityService, not_once
from netsim.fabric.graphs import Graphs, IterationSteps, OperationRows
from netsim.fabric.kernels import blocks, flow_order, priority_rows, progress
from netsim.fabric.kernels.flow_order_state import FlowOrderState
from netsim.fabric.kernels.graphs import emit
from netsim.fabric.kernels.max_min import add_coflows, flush_rows
from netsim.fabric.kernels.max_min_state import MaxMinState, moved, new_state
from netsim.fabric.kernels.priority_state import PriorityState, no_flows
from netsim.fabric.kernels.progress import add, admit, sort_by_job
from netsim.fabric.kernels.proportional import SharedLinks, new_shared_links
from netsim.fabric.kernels.rules import NO_ORDER
from netsim.fabric.records import COFLOW, JOB, NO_COFLOWS, WAITED, FlowRows
from netsim.fabric.routed_coflow import FlowArrays, RoutedCoflow, WithoutProcess
from netsim.workload import IterationProfile

# --- engines, kept between decisions -------------------------------------------------------
_arrays_of_copy, _update, _add_coflows, _flush_rows = map(Direct, (
    priority_rows.arrays_of_copy, priority_rows.update, add_coflows, flush_rows))


class PriorityEngine:
    """Keeps the engine with which the event loop serves coflows or flows in order.

    The engine is rebuilt only after a coflow has come or many flows have ended, or, if flows are
    served one by one, after the order has changed.
    """

    def __init__(self) -> None:
        self.current: PriorityState | FlowOrderState | None = None  #: None until it is needed

    def suspend(self) -> None:
        """Drop the engine: coflows have come, or rates or links have changed."""
        self.current = None

    def begin(self, coflows: NDArray[Any], arrays: FlowRows, capacity: Floats,
              service: PriorityService, interval: float) -> Any:
        """Return the engine for a decision, updated from the current one if possible."""
        current = self.current
        if service.flow_by_flow:
            current = flow_order.engine_for(
                current if isinstance(current, FlowOrderState) else None, coflows, arrays.flows,
                arrays.hops, capacity, service.order, service.by_size)
        elif (isinstance(current, PriorityState) and not current.status["admitted"][0]
              and current.status["queues"][0] == len(service.queue_shares)):
            _update(current, coflows, arrays.flows, service.for_kernels, interval)
        else:
            current = PriorityState(*_arrays_of_copy(coflows, arrays, capacity,
                                                     service.for_kernels, interval))
        self.current = current
        return current

    def for_rule(self) -> PriorityState:
        """Return the engine for a rule in the event loop; one without flows if there is none."""
        return self.current if isinstance(self.current, PriorityState) else no_flows()

    def move(self, coflows: NDArray[Any], before: Ints) -> None:
        """Adjust the engine to flows that have moved to other rows.

        The rows have the current places of flows; the first flow of each coflow was at `before`.
        """
        engine = self.current
        if not isinstance(engine, PriorityState | FlowOrderState) or not len(coflows):
            return
        # The last flow of a `FlowOrderState` is a dummy.
        flows = engine.flows if isinstance(engine, PriorityState) else engine.flows[:-1]
        keys, owner, flow = engine.coflows["key"], flows["coflow"], flows["row"]
        # Rows are in order of their keys; the engine may have coflows that are complete.
        row = np.minimum(np.searchsorted(coflows["key"], keys), len(coflows) - 1)
        moved = np.where(coflows["key"][row] == keys, (coflows["flow"] - before)[row], 0)
        flow += moved[owner]


class MaxMinEngine:
    """Shares all links among all flows; while in use, only it knows the bytes left of each flow."""

    def __init__(self) -> None:
        self.current: MaxMinState | None = None  #: what the event loop works on, if in use
        #: Whether bytes left are rounded independently of the number of flows; slower with many.
        self.deterministic_rounding = False
        self._by_flow = True

    @property
    def known(self) -> int:
        """The key of the last coflow in the engine; -1 if the engine is not in use."""
        return -1 if self.current is None else int(self.current.state["known"][0])

    def decide(self, by_flow: bool) -> None:
        """Share links again now, and later whenever a flow, or only when a coflow, ends."""
        if self.current is not None:
            self.current.state["by_flow"] = by_flow
            if not (by_flow and self._by_flow):  # else it is known where flows have ended
                self.current.state["stale"] = 1
        self._by_flow = by_flow

    def take_in(self, rows: NDArray[Any], count: int, arrays: FlowRows,
                capacity: Floats, longest: int) -> MaxMinState:
        """Add the flows of the first `count` rows, which are active; build new arrays if needed.

        `longest` is the largest number of links on a path of these coflows or of those that may
        join later.
        """
        flows, hops, _ = arrays
        while self.current is None or not _add_coflows(self.current, rows[:count], flows, hops):
            self.suspend(rows[:count], flows)
            self.current = new_state(rows[:count], flows, hops, capacity, longest, self._by_flow,
                                     self.deterministic_rounding)
        return self.current

    def move(self, coflows: NDArray[Any], before: Ints, flows: int) -> None:
        """Adjust to flows that have moved to other rows; see `moved`."""
        if self.current is not None:
            self.current = moved(self.current, coflows, before, flows)

    def flush(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, if the engine is in use."""
        if (engine := self.current) is not None:
            _flush_rows(engine.state, engine.classes, engine.progress, engine.numbers,
                        engine.flows, coflows, flows)

    def suspend(self, coflows: NDArray[Any], flows: NDArray[Any]) -> None:
        """Write bytes and rates to the rows, and stop using the engine."""
        self.flush(coflows, flows)
        self.current = None


# --- the table -----------------------------------------------------------------------------
_NOT_COUNTED = np.empty(0)


class FlowTable:
    """The active coflows in order of (valid time, job, stage), with their flows and loads.

    Each coflow has a segment in each of the arrays `flows`, `hops` and `loads`.
    """

    def __init__(self, capacity: Floats, job_arrivals: Any) -> None:
        self.capacity = np.array(capacity, dtype=np.float64)  #: bytes per second
        self.jobs = np.zeros(len(job_arrivals), JOB)
        self.jobs["arrival"] = job_arrivals
        self.active_jobs = 0  #: jobs that have an active coflow
        self.in_step = True  #: whether the current rates keep the flows of each coflow in step
        self.rows = np.zeros(16, COFLOW)  #: those of `coflows`, and room for more
        self.flow_arrays = FlowArrays()
        self.graphs = Graphs(len(self.jobs))
        self.profiles: dict[int, IterationProfile] = {}  #: of the jobs that have told theirs
        self.last_key = 0  #: of the coflow that was added last
        self.pending = NO_COFLOWS
        self.next_pending = math.inf  #: when the next expected coflow becomes valid
        self._fresh = True
        #: Bytes per second that the last allocation put on each link, if it was checked.
        self.used = np.zeros(len(self.capacity))
        self.coflows = self.rows[:0]
        self.serving = PriorityEngine()
        self.sharing = MaxMinEngine()

    @property
    def flows(self) -> NDArray[Any]:
        return self.flow_arrays.arrays.flows

    @property
    def hops(self) -> NDArray[Any]:
        return self.flow_arrays.arrays.hops

    @property
    def loads(self) -> NDArray[Any]:
        return self.flow_arrays.arrays.loads

    @property
    def next_arrival(self) -> float:
        """When the next coflow becomes valid, as far as is known; inf if none will."""
        return min(self.next_pending, self.graphs.next_due)

    @property
    def kernel_view(self) -> tuple[Any, ...]:
        """What kernels that add coflows take: rows, jobs, flow arrays and their used parts."""
        return self.rows, self.jobs, self.flow_arrays.arrays, self.flow_arrays.used

    def __deepcopy__(self, memo: dict[int, Any]) -> FlowTable:
        """Copy only the segments of active and pending coflows: the arrays may be much larger."""
        memo[id(self.flow_arrays)] = self.flow_arrays.copied(self.coflows, self.pending,
                                                             self.graphs.unsent)
        other = memo[id(self)] = FlowTable.__new__(FlowTable)
        other.__setstate__(deepcopy(self.__getstate__(), memo))
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "coflows": len(self.coflows)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore `coflows` as a view of the first of the copied `rows`."""
        self.__dict__.update(state)
        self.coflows = self.rows[:state["coflows"]]

    # --- rows come and go ------------------------------------------------------------

    def add_job(self, index: int, arrival: float) -> None:
        """Add a row for a new job; jobs come in order of their numbers."""
        if index >= len(self.jobs):
            self.jobs = np.concatenate((self.jobs, np.zeros(len(self.jobs) + 16, JOB)))
            self.graphs.make_room(len(self.jobs))
        self.jobs["arrival"][index] = arrival

    def insert_job(self, index: int, arrival: float, gpus: int = 0) -> None:
        """Insert a job without active coflows; the numbers of later jobs grow by one."""
        row = np.zeros(1, JOB)
        row["arrival"], row["gpus"] = arrival, gpus
        self.jobs = np.concatenate((self.jobs[:index], row, self.jobs[index:]))
        self.graphs.insert(index)
        self.pending["job"] += self.pending["job"] >= index

    def profiles_of(self, jobs: Ints) -> NDArray[Any]:
        """Return the profile of each of these jobs, as rows."""
        rows = [self.profiles.get(job, IterationProfile()) for job in jobs.tolist()]
        return np.array(rows, [(name, np.float64) for name in IterationProfile._fields])

    def add_links(self, capacity: Floats) -> None:
        """Add links with these capacities, in bytes per second; no flow crosses them yet."""
        more = capacity[len(self.capacity):]
        self.capacity = np.concatenate((self.capacity, more))
        self.used = np.concatenate((self.used, np.zeros(len(more))))

    def add(self, demand: RoutedCoflow, job: int, valid: float, order: int = 0) -> int:
        """Append a coflow and return its key; its flows send nothing before the next allocation."""
        count = len(self.coflows)
        self.make_room(1, demand)
        self.last_key += 1
        self.active_jobs += add(
            self.rows, count, self.jobs, self.flow_arrays.arrays, self.flow_arrays.used,
            demand.coflows, demand.arrays, job, self.last_key, order, valid, demand.gamma,
            demand.weight, valid + (demand.deadline_s - demand.overhead_s))
        self._rows_changed(count + 1)
        return self.last_key

    def expect(self, pending: RoutedCoflow) -> None:
        """Store coflows that will become valid, with job, order and time; sorted by these.

        All coflows expected before must have been admitted.
        """
        self.pending = NO_COFLOWS
        rows = pending.coflows.copy()
        self.make_room(0, pending)
        self.flow_arrays.copy_in(rows, pending)
        self.set_pending(rows)

    def run_graph(self, job: int, coflows: Sequence[RoutedCoflow], steps: IterationSteps,
                  iterations: int, begin_s: float, wait_s: float) -> float:
        """Expect the coflows of a graph; see `FabricProcess.run_graph`.

        Return when the first coflow of a chain becomes valid; of operations, the next one of all.
        """
        self.make_room(0, *coflows)
        self.graphs.begin(job, coflows, steps, iterations, begin_s, wait_s, self.flow_arrays)
        if isinstance(steps, OperationRows):
            return self.next_arrival
        return float(self.graphs.of_jobs["due"][job])

    def admit(self, until: float, before: float = math.inf) -> None:
        """Activate the coflows that are valid by `until`, of jobs numbered below `before`.

        They are activated in the order of their jobs.
        """
        if self.next_arrival > until:
            return
        first = len(self.coflows)
        before = min(before, len(self.jobs))
        self._admit_pending(until, before)
        among = len(self.coflows)
        self._emit(until, int(before))
        if first < among < len(self.coflows):
            joined = self.coflows[first:]
            sort_by_job(joined, np.empty(len(joined), np.int64), joined.copy())

    def _admit_pending(self, until: float, before: float) -> None:
        due = self.pending[:int(np.searchsorted(self.pending["valid"], until, "right"))]
        due[:] = due[np.argsort(due["job"], kind="stable")]
        joining = int(np.searchsorted(due["job"], before))
        self.make_room(joining)
        admitted = admit(self.rows, len(self.coflows), due[:joining], 0, until, self.jobs,
                         self.last_key + 1)
        self.set_pending(self.pending[admitted:])
        # Each is the only coflow of its job.
        self.set_active(len(self.coflows) + admitted, self.last_key + admitted, admitted)

    def set_pending(self, pending: NDArray[Any]) -> None:
        """Set the expected coflows that are not active yet."""
        self.pending = pending
        self.next_pending = float(self.pending["valid"][0]) if len(self.pending) else math.inf

    def _emit(self, until: float, before: int) -> None:
        graphs, count = self.graphs, len(self.coflows)
        if graphs.next_due > until:
            return
        self.make_room_for_graphs(until)
        emitted, idle = emit(self.rows, count, self.jobs, graphs.kernel_view,
                             *self.kernel_view[2:], until, before, self.last_key + 1)
        self.graphs.find_next_due()
        self.set_active(count + emitted, self.last_key + emitted, idle)

    def make_room_for_graphs(self, until: float, rows: int = 0) -> None:
        """Make room for the coflows of graphs that are due by `until`, and for `rows` more."""
        self.graphs.resume_parked()
        count, *wanted = self.graphs.wanted(until)
        self.make_room(rows + max(count, len(self.graphs.running)), wanted=wanted)

    def set_active(self, count: int, last_key: int, idle: int) -> None:
        """Set the number of active coflows, and adjust the number of jobs that have one."""
        self.last_key = last_key
        self.active_jobs += idle
        self._rows_changed(count)

    def _rows_changed(self, count: int) -> None:
        self.coflows = self.rows[:count]
        self.serving.suspend()
        self._fresh = False

    def make_room(self, rows: int, *demands: RoutedCoflow, wanted: Sequence[int] = (0, 0, 0)
                  ) -> None:
        """Make room for this number of coflows, and for the wanted flows, hops and loads."""
        if (count := len(self.coflows)) + rows > len(self.rows):
            self.rows = np.zeros(2 * (count + rows), COFLOW)
            self.rows[:count] = self.coflows
            self.coflows = self.rows[:count]
        if demands:
            wanted = _wanted(demands)
        if not self.flow_arrays.have_room(wanted):
            before = self.coflows["flow"].copy()
            self.flow_arrays.make_room(wanted, self.coflows, self.pending, self.graphs.live)
            # A new sharing would round differently, and results must not depend on the room.
            self.sharing.move(self.coflows, before, len(self.flows))
            self.serving.move(self.coflows, before)

    def remove_finished(self) -> NDArray[Any]:
        """Remove the coflows that have completed, and return their rows."""
        removed = np.empty(len(self.coflows), COFLOW)
        count, jobs_idle = progress.remove_finished(self.coflows, self.jobs, removed)
        self.active_jobs -= jobs_idle
        self.coflows = self.rows[:len(self.coflows) - count]
        return removed[:count]

    def flows_left(self, key: int) -> Floats:
        """Return the bytes left of each flow of an active coflow. Shape (flows,)."""
        self.flush()
        row = self.coflows[self._place(key)]
        return self.flows_of(row)["remaining"] * row["left"]

    def flows_of(self, row: Any) -> NDArray[Any]:
        """Return the FLOW rows of a COFLOW row."""
        return self.flows[row["flow"]:row["flow"] + row["flows"]]

    def _place(self, key: int) -> int:
        return int(np.flatnonzero(self.coflows["key"] == key)[0])

    def withdraw(self, key: int) -> Floats:
        """Remove an active coflow; return the bytes left of each flow."""
        self.suspend_engines()
        left, place = self.flows_left(key), self._place(key)
        job = self.jobs[self.coflows["job"][place]]
        job["attained"] += self.coflows["total"][place] - left.sum()
        job["active"] -= 1
        self.active_jobs -= int(job["active"] == 0)
        self.coflows[place:-1] = self.coflows[place + 1:].copy()
        self._rows_changed(len(self.coflows) - 1)
        return left

    def reroute(self, key: int, demand: RoutedCoflow) -> None:
        """Move an active coflow to the links of a demand with the same flows, from now on."""
        self._reroute(np.array([self._place(key)]), demand)

    def reroute_without_process(self, moved: WithoutProcess) -> bool:
        """Reroute jobs without a process, from now on; return whether an active coflow moves."""
        moves = False
        if (singles := moved.singles) is not None:
            place_of = np.full(len(self.jobs), -1)
            place_of[self.coflows["job"]] = np.arange(len(self.coflows))
            moves = self._reroute(place_of[singles.coflows["job"]], singles)
        for job, demands in moved.graphs.items():
            moves |= self._reroute_graph(job, demands)
        return moves

    def _reroute(self, places: Ints, demands: RoutedCoflow) -> bool:
        self.suspend_engines()
        self.make_room(0, demands)
        return self._moves(places, demands)

    def _moves(self, places: Ints, demands: RoutedCoflow) -> bool:
        moves = progress.reroute(self.coflows, places, self.flow_arrays.arrays,
                                 self.flow_arrays.used, demands.coflows, demands.arrays) > 0
        self._fresh &= not moves
        return moves

    def without_process(self) -> Ints:
        """Return the jobs without a process that have coflows left to send, in order."""
        rows = self.coflows
        sending = (rows["waited"] != WAITED) & (rows["open"] > 0)
        return np.union1d(self.graphs.unended, rows["job"][sending])

    def _reroute_graph(self, job: int, demands: Sequence[RoutedCoflow]) -> bool:
        self.suspend_engines()
        wanted = _wanted(demands)  # twice, as an active one may move as well
        self.make_room(0, wanted=(wanted[0], 2 * wanted[1], 2 * wanted[2]))
        self.graphs.reroute(job, demands, self.flow_arrays)
        active = np.flatnonzero((self.coflows["job"] == job) & (self.coflows["open"] > 0))
        moves = [self._moves(np.array([place]), demands[self.graphs.stage_of(self.coflows[place])])
                 for place in active]
        return any(moves)

    def links_in_use(self) -> Bools:
        """Return for each link whether an unfinished flow crosses it."""
        self.flush()
        index, _ = self.open_flows()
        first, hops = self.flows["hop"][index], self.flows["hops"][index]
        used = np.zeros(len(self.capacity), np.bool_)
        for hop in range(int(hops.max(initial=0))):
            used[self.hops["link"][(first + hop)[hops > hop]]] = True
        return used

    def set_capacities(self, capacity: Mapping[int, float]) -> None:
        """Change capacities of links, in bytes per second."""
        self.suspend_engines()
        self.capacity[list(capacity)] = list(capacity.values())
        self.coflows["fresh"] = np.minimum(self.coflows["fresh"], 1)
        self._fresh = False

    def advance(self, dt: float, now: float, slack: float,
                carried: Floats = _NOT_COUNTED) -> tuple[int, int]:
        """Move bytes for `dt` seconds at current rates; return how many coflows and flows end.

        In step, the bytes of each link are added to `carried`, if it has a value per link.
        """
        if self.in_step:
            done = progress.advance_in_step(self.coflows, self.loads, dt, now, slack, carried)
            return done, done
        self._fresh = False
        return progress.advance_flows(self.coflows, self.flows, dt, now, slack)

    def apply_shares(self, shares: Floats, now: float, check: bool) -> tuple[float, float, int]:
        """Apply shares of the LP rates; see `progress.apply_shares`."""
        self.begin_in_step()
        finish, link = progress.apply_shares(self.coflows, self.loads, shares, self.capacity,
                                             self.used, now, check)
        return finish, finish, link

    def begin_in_step(self) -> None:
        """Prepare the rows for shares of LP rates, which keep each coflow's flows in step."""
        self.suspend_engines()
        self.refresh()
        self.in_step = True

    def apply_order(self, order: Ints, now: float) -> tuple[float, float, int]:
        """Apply an order, as shares; the returned link is `NO_ORDER` if coflows are missing."""
        if not_once(order):
            return math.inf, math.inf, NO_ORDER
        self.begin_in_step()
        return self.apply_shares(self.shares_in_order(order), now, False)

    def shares_in_order(self, order: Ints) -> Floats:
        """Return the largest share of each coflow that still fits, in order (MADD)."""
        self.refresh()
        count = len(self.coflows)
        shares: Floats = blocks.greedy(
            self.coflows, self.loads, order, np.ones(count), np.zeros(count), self.capacity,
            self.no_shared_links())
        return shares

    def no_shared_links(self) -> SharedLinks:
        """Return empty shared links with room for the active coflows."""
        return new_shared_links(len(self.coflows), len(self.loads), len(self.capacity))

    def apply_rates(self, rates: Floats, now: float, check: bool) -> tuple[float, float, int]:
        """Apply one rate per unfinished flow; see `progress.apply_rates`."""
        self.suspend_engines()
        self._spread()
        return progress.apply_rates(self.coflows, self.flows, self.hops, rates, self.capacity,
                                    self.used, now, check)

    def set_weights(self, weights: Floats, split: bool) -> tuple[float, float]:
        """Set the weights of unfinished flows, or `split` those of coflows among their flows.

        Return the least positive and the largest weight of a flow.
        """
        put = progress.split_weights if split else progress.set_weights
        light, heavy, changed = put(self.coflows, self.flows, weights, self.sharing.known)
        if changed:
            self.suspend_engines()
        return light, heavy

    def begin_sharing(self, pending: NDArray[Any]) -> MaxMinState:
        """Return the arrays of max-min sharing, with all active coflows in it.

        Coflows in `pending` may join later, besides those of graphs.
        """
        self.serving.suspend()
        self._spread()
        self._fresh = False
        longest = max([1, *(int(rows["max_hops"].max(initial=1))
                            for rows in (self.coflows, pending, self.graphs.live))])
        return self.sharing.take_in(self.rows, len(self.coflows), self.flow_arrays.arrays,
                                    self.capacity, longest)

    def suspend_sharing(self) -> None:
        """Write the bytes left of each flow to its row, so that coflows can be served in order."""
        self.sharing.suspend(self.coflows, self.flows)
        self._spread()
        self._fresh = False

    def flush(self) -> None:
        """Bring the bytes and rates of the rows up to date."""
        if self.sharing.current is not None:
            self.sharing.flush(self.coflows, self.flows)
            self._fresh = False

    def suspend_engines(self) -> None:
        """Write bytes left and rates to the rows, and drop all other copies of them."""
        self.sharing.suspend(self.coflows, self.flows)
        self.serving.suspend()

    def _spread(self) -> None:
        if self.in_step:
            progress.spread(self.coflows, self.flows, self.loads)
            self.in_step = False

    def flow_rates(self) -> Floats:
        """Return the bytes per second of each unfinished flow, in the order of `open_flows`."""
        self.flush()
        index, owner = self.open_flows()
        if self.in_step:
            return self.flows["remaining"][index] * self.coflows["speed"][owner]
        return self.flows["rate"][index]

    def bytes_left(self) -> Floats:
        """Return the bytes that each active coflow has yet to send."""
        self.flush()
        return self.coflows["base"] * self.coflows["left"]

    def next_finishes(self) -> tuple[float, float]:
        """Return when the next flow and the next coflow complete; see `progress.next_finishes`."""
        self.flush()
        return progress.next_finishes(self.coflows, self.flows, self.in_step)

    def next_end_after(self, at: float) -> float:
        """Return when the next flow ends after `at`, at the rates in the rows; inf if none does."""
        ends = (self.coflows["finish"][self.coflows["open"] > 0] if self.in_step
                else self.flows["finish"][self.open_flows()[0]])
        return float(ends[ends > at].min(initial=np.inf))

    def carried(self, start: float, end: float) -> Floats:
        """Return the bytes that each link carries between two times, at the rates in the rows.

        No bytes may have been moved since `start`.
        """
        rows = (self.coflows, self.flows, self.hops, self.loads)
        return progress.carried_between(*rows, self.in_step, start, end, len(self.capacity))

    def active(self) -> tuple[int, int, int]:
        """Return the numbers of jobs, coflows and flows that have bytes left to send."""
        unfinished = self.coflows["open"]
        count = np.count_nonzero(unfinished)
        jobs = (self.active_jobs if count == len(unfinished)
                else len(np.unique(self.coflows["job"][unfinished > 0])))
        return jobs, int(count), int(unfinished.sum())

    def refresh(self) -> None:
        """Bring the coflows' loads and gammas up to date."""
        if not self._fresh:
            progress.refresh(self.coflows, self.flows, self.hops, self.loads, self.capacity)
            self._fresh = True

    def throttle(self, now: float) -> tuple[float, float, int]:
        """Reduce rates on links that are overloaded after a drop of their capacity."""
        if self.in_step:
            self.refresh()
            shares = progress.throttle_shares(self.coflows, self.loads, self.capacity, self.used)
            return self.apply_shares(shares, now, False)
        rates = progress.throttle_rates(self.coflows, self.flows, self.hops, self.capacity,
                                        self.used)
        return self.apply_rates(rates, now, False)

    def open_flows(self) -> tuple[Ints, Ints]:
        """Return the positions of unfinished flows in `flows`, and the coflow of each."""
        return blocks.open_flows(self.coflows, self.flows)


def _wanted(demands: Sequence[RoutedCoflow]) -> tuple[int, int, int]:
    """Return the numbers of flows, hops and loads of some coflows; equal demands count once."""
    distinct = set(demands)
    return (sum([len(each.flows) for each in distinct]), sum([len(each.hops) for each in distinct]),
            sum([len(each.loads) for each in distinct]))
