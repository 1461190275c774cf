"""Check that an allocator keeps the promises that the fabric and its users rely on.

Each promise is a function that returns the fault it finds, if any.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.arrays import Floats
from netsim.base.values import as_whole, known_names
from netsim.fabric.allocation import Allocation, Information, sees
from netsim.fabric.allocator import Allocator, CompiledAllocator
from netsim.fabric.records import DUST
from netsim.fabric.rule_code import RuleRunner
from netsim.fabric.view import FabricView
from netsim.network import BigSwitch, Topology
from netsim.testing import cases
from netsim.testing.cases import Case, check_sends, draw_case, draw_network
from netsim.testing.trial import BrokenPromise, Pick, Promise, Trial, check_drawn, chosen, noted

Policy = str | Mapping[str, Any] | Allocator | type[Allocator]

#: The message about an allocator whose answer is not valid.
_MISFIT = "does not return an Allocation that fits the view"

#: The most coflows of a view, and flows of a coflow; the largest seed of variations.
_LARGEST, _SEEDS = 5, 99


@known_names
def check_allocator(policy: Policy, *, networks: Iterable[Topology] | None = None,
                    promises: Iterable[str] | None = None, examples: int = 100,
                    seed: int = 0) -> None:
    """Check on random views that an allocator keeps its promises.

    It must return an `Allocation` that fits the view, with finite, non-negative rates within all
    capacities, and must not change the view. Its answer must not depend on

    - the instance: fresh instances give equal answers on equal views;
    - how hosts are numbered, or whether there are idle jobs;
    - the order in which a coflow lists its flows, unless the allocator declares ``order_free =
      False``. Hosts and flows are only reordered on big switches, where this changes no path.
      Coflows are sorted by validity and jobs by arrival, so these orders may matter;
    - the unit of time, unless it declares ``time_free = False``, and the unit of bytes, unless it
      declares ``scale_free = False``;
    - anything that it declares not to know: bytes not sent yet if its ``information`` is
      ``"agnostic"``, coflows not emitted yet unless it is ``"job-clairvoyant"``, and predictions of
      them unless it is that or ``"predicted"``.

    Reading a column that it declares not to know is an `InputError`, here as in a run. If an
    agnostic policy returns an order, with or without `leftover`, only the order must be independent
    of sizes. The rates may depend on sizes, because the fabric knows them when it serves the
    coflows. If a policy has a ``compiled_rule``, ``allocate`` and it must give the same rates.

    If it claims to be ``work_conserving``, each unfinished flow must cross a full link. Unless it
    declares ``stall_free = False``, some flow must get a rate, or the policy must ask to be woken,
    as long as there is a coflow none of whose flows needs a failed link.

    Parameters
    ----------
    policy : str, mapping, Allocator or class
        As for `netsim.simulate`. A fresh instance is made for each call.
    networks : iterable of Topology, optional
        Networks of the views. By default, small big switches with unequal ports.
    promises : iterable of str, optional
        Names of the promises to check; see `netsim.testing.promises_of`. By default all.
    examples : int
        Number of random views, from one flow to five coflows of five flows.
    seed : int
        Seed of the views.

    Raises
    ------
    AssertionError
        If a promise is broken. The message names the allocator and the promise, with the smallest
        view found that shows it. Exceptions of the allocator itself propagate, with a note of the
        view.
    MissingExtraError
        If hypothesis is not installed.

    Examples
    --------
    >>> from netsim.testing import check_allocator
    >>> check_allocator({"name": "aalo-lbsf", "work_conservation": "none"}, examples=5)
    """
    examples = as_whole(examples, "examples", 1)
    given: list[Topology | None] = list(networks or ()) or [None]
    for network in given:
        if network is not None:
            check_sends(network)
    for place, network in enumerate(given):
        if share := len(range(place, examples, len(given))):
            check_drawn(partial(_draw, policy, network), chosen(PROMISES, promises), share,
                        seed + place)


def _draw(policy: Policy, network: Topology | None, pick: Pick) -> AllocatorTrial:
    """Draw a view, on a random network if none is given."""
    seed = pick(0, _SEEDS)
    network = draw_network(pick, 2, 1 + _LARGEST) if network is None else network
    return AllocatorTrial(policy, draw_case(pick, network, _LARGEST, _LARGEST), seed)


# --- the trial -----------------------------------------------------------------------------


@dataclass(frozen=True)
class AllocatorTrial(Trial):
    """An allocator under test on a view, and on variations of it that must give the same answer.

    A fresh instance of the policy is made for each call.
    """

    policy: Policy
    case: Case
    seed: int  #: of the variations

    @property
    def subject(self) -> str:
        """The allocator with its options, as messages name it."""
        options = ALLOCATORS.to_dict(self.allocator)
        name = options.pop("name")
        given = ", ".join(f"{option}={value!r}" for option, value in options.items())
        return f"allocator {name}{f' ({given})' if given else ''}"

    @property
    def example(self) -> str:
        """The view, as the call that makes it."""
        return f"on the view\n{self.case}"

    @cached_property
    def allocator(self) -> Allocator:
        """An instance of the allocator, used only to read what it declares."""
        return make_allocator(self.policy)

    @cached_property
    def view(self) -> FabricView:
        """A view to inspect; the allocator never sees it."""
        return self.case.view()

    @cached_property
    def answer(self) -> Floats:
        """Rate of each flow, in bytes per second."""
        return self.rates(self.case)

    @cached_property
    def revisit_at(self) -> float:
        """Instant at which the allocator asks to be woken; inf if it does not."""
        return self.ask(self.case.view(self.allocator.information, self.allocator.sees_running)
                        ).revisit_at

    def rng(self) -> np.random.Generator:
        """Make the random generator of variations, with the same seed for all promises."""
        return np.random.default_rng(self.seed)

    def ask(self, view: FabricView) -> Allocation:
        """Ask a fresh instance for its allocation; its exceptions get a note of the case."""
        with noted(self.example):
            return make_allocator(self.policy).allocate(view)

    def rates(self, case: Case) -> Floats:
        """The rates that the allocator gives in a case; see `allocation`."""
        return case.view(self.allocator.information, self.allocator.sees_running).rates(
            self.allocation(case))

    def allocation(self, case: Case) -> Allocation:
        """The allocation in a case; BrokenPromise is raised if it does not fit the view."""
        other = replace(self, case=case)
        view = case.view(self.allocator.information, self.allocator.sees_running)
        allocation = other.ask(view)
        fault = _misfit(view, allocation)
        if fault:
            raise BrokenPromise(other, _MISFIT, fault)
        return allocation

    def difference(self, other: Case, what: str, *, factor: float = 1.0,
                   places: list[int] | None = None) -> str | None:
        """Describe how the answer to an equivalent case differs; None if it does not.

        `what` describes the variation, and `factor` is that by which it scales rates. `places` has
        the index of each flow of the other case in this trial's view.
        """
        expected = factor * (self.answer if places is None else self.answer[places])
        rates = self.rates(other)
        slack = DUST * factor * self.view.capacity.max()
        if np.allclose(rates, expected, rtol=0, atol=slack):
            return None
        return f"flows get {listed(rates)} bytes/s and not {listed(expected)} {what}"


def _misfit(view: FabricView, allocation: Allocation) -> str | None:
    """Describe the fault in the form of an allocation, if there is one."""
    if not isinstance(allocation, Allocation):
        return f"it returned {type(allocation).__name__}, not an Allocation"
    if not allocation.revisit_at > view.now:
        return f"it asks to be woken at {allocation.revisit_at!r} s, not after now, {view.now!r} s"
    if view.uses_sizes(allocation):
        return 'it returned shares or MADD, which use sizes, but declares that it is agnostic'
    if allocation.service is not None and len(allocation.service.order) != len(view):
        return f"it returned a service of {len(allocation.service.order)} coflows, not {len(view)}"
    for form, entries in (("order", len(view)), ("rates", view.flows), ("shares", len(view)),
                          ("weights", view.flows), ("coflow_weights", len(view))):
        values = getattr(allocation, form)
        if values is not None and values.shape != (entries,) and not (
                form == "weights" and values.ndim == 0):
            return f"it returned {form} of shape {values.shape}, not ({entries},)"
        if values is not None and not np.all(np.isfinite(values) & (values >= 0)):
            return f"it returned the {form} {listed(values)}, not all finite and at least 0"
    return None


def listed(values: Floats) -> str:
    """Format numbers with nine digits."""
    return "[" + ", ".join(f"{value:.9g}" for value in values) + "]"


# --- promises ------------------------------------------------------------------------------

#: Factors of the units. Powers of two scale without rounding, so that answers are the same to the
#: last bit unless the allocator uses absolute amounts.
_SECONDS, _BYTES = (2.0**6, 2.0**-16), 2.0**12

#: Names of the properties of a view.
_SHOWN = [name for name, value in inspect.getmembers_static(FabricView)
          if isinstance(value, property | cached_property) and not name.startswith("_")]


def _changes_the_view(trial: AllocatorTrial) -> str | None:
    view = trial.case.view(trial.allocator.information, trial.allocator.sees_running)
    before = _snapshot(view)
    trial.ask(view)
    after = _snapshot(view)
    changed = [name for name in before if before[name] != after[name]]
    return f"{', '.join(changed)} changed" if changed else None


def _snapshot(view: FabricView) -> dict[str, bytes]:
    """All properties of a view, and the rows behind it, as bytes."""
    shown = {name: getattr(view, name) for name in _SHOWN if view.shows(name)}
    if view._running is not None:
        shown["running"] = view.running()
    # Read last, as reading attained service updates the rows, and so do blocks that need gamma.
    table = view._table
    table.refresh()
    rows = {f"table.{name}": getattr(table, name)
            for name in ("coflows", "flows", "hops", "loads", "jobs", "capacity")}
    return {name: b"".join(np.asarray(part).tobytes()
                           for part in (value if isinstance(value, tuple) else (value,)))
            for name, value in (shown | rows).items()}


def _does_not_fit(trial: AllocatorTrial) -> str | None:
    trial.answer  # noqa: B018  # raises BrokenPromise itself
    return None


def _overloads(trial: AllocatorTrial) -> str | None:
    load, capacity = trial.view.link_load(trial.answer), trial.view.capacity
    over = np.flatnonzero(load > capacity * (1 + DUST))
    if not len(over):
        return None
    link = over[0]
    return (f"it puts {load[link]:.9g} of {capacity[link]:.9g} bytes/s on link "
            f"{trial.case.network.link_names[link]!r}")


def _is_not_deterministic(trial: AllocatorTrial) -> str | None:
    again = trial.rates(trial.case)
    if np.array_equal(again, trial.answer):
        return None
    return f"asked again, it gives flows {listed(again)} bytes/s and not {listed(trial.answer)}"


def _depends_on_host_names(trial: AllocatorTrial) -> str | None:
    if not isinstance(trial.case.network, BigSwitch):
        return None
    names = trial.rng().permutation(trial.case.network.hosts).tolist()
    return trial.difference(cases.rename_hosts(trial.case, names),
                         f"if hosts are numbered {names}")


def _depends_on_flow_order(trial: AllocatorTrial) -> str | None:
    if not (trial.allocator.order_free and isinstance(trial.case.network, BigSwitch)):
        return None
    rng = trial.rng()
    orders = [rng.permutation(len(flows)).tolist() for flows in trial.case.coflows]
    other, places = cases.reorder_flows(trial.case, orders)
    return trial.difference(other, f"if flows are listed in the order {orders}", places=places)


def _depends_on_job_numbers(trial: AllocatorTrial) -> str | None:
    numbers = np.cumsum(trial.rng().integers(1, 4, len(trial.case.arrival_s))).tolist()
    return trial.difference(cases.renumber_jobs(trial.case, numbers),
                            f"if jobs are numbered {numbers}, with idle ones between")


def _peeks_at_sizes(trial: AllocatorTrial) -> str | None:
    if trial.allocator.information != "agnostic":
        return None
    factors = trial.rng().integers(1, 9, trial.view.flows).astype(np.float64)
    other = cases.more_unsent(trial.case, factors.tolist())
    what = f"if flows have {listed(factors)} times as much to send"
    order = trial.allocation(trial.case).order
    if order is None:
        return trial.difference(other, what)
    # The fabric serves an order by sizes, which it knows: only the order must not change.
    found = trial.allocation(other).order
    if found is not None and np.array_equal(order, found):
        return None
    return f"it gives the order {found} and not {order} {what}"


def _differs_from_its_rule(trial: AllocatorTrial) -> str | None:
    allocator = trial.allocator
    if allocator.compiled_rule is None or isinstance(allocator, CompiledAllocator):
        return None
    view = trial.case.view(allocator.information, allocator.sees_running)
    runner = RuleRunner(allocator.compiled_rule, view._table)
    with noted(trial.example):
        runner.ask(view.now)
        rates = view.rates(runner.allocation())
    if np.allclose(rates, trial.answer, rtol=0, atol=DUST * view.capacity.max()):
        return None
    return f"flows get {listed(trial.answer)} bytes/s, but {listed(rates)} by its rule"


def _peeks_ahead(trial: AllocatorTrial) -> str | None:
    hidden: Sequence[tuple[str, Information, str]] = (
        ("ahead_s", "job-clairvoyant", "if jobs have more to emit"),
        ("predicted_s", "predicted", "if jobs are predicted to emit more"))
    for name, needs, what in hidden:
        if not sees(trial.allocator.information, needs):
            other = cases.more_ahead(trial.case, 64.0, name)
            if fault := trial.difference(other, what):
                return fault
    return None


def _depends_on_unit_of_time(trial: AllocatorTrial) -> str | None:
    if not trial.allocator.time_free:
        return None
    for factor in _SECONDS:
        fault = trial.difference(cases.scale_time(trial.case, factor),
                                 f"if the unit of time is {factor:g} times as long", factor=factor)
        if fault:
            return fault
    return None


def _depends_on_unit_of_bytes(trial: AllocatorTrial) -> str | None:
    if not trial.allocator.scale_free:
        return None
    return trial.difference(cases.scale_bytes(trial.case, _BYTES),
                         f"if sizes and capacities are {_BYTES:g} times as large", factor=_BYTES)


def _is_not_work_conserving(trial: AllocatorTrial) -> str | None:
    if not trial.allocator.work_conserving:
        return None
    view = trial.view
    spare = view.capacity - view.link_load(trial.answer)
    # Twice the tolerance, as max-min sharing already treats a link with less left as full.
    full = spare <= 2 * DUST * view.capacity
    ptr, links = view.paths
    for flow, (first, end) in enumerate(pairwise(ptr)):
        path = links[first:end]
        if not full[path].any():
            c, f = trial.case.open_flows()[flow]
            return (f"flow {f} of coflow {c} could be given "
                    f"{math.floor(spare[path].min())} bytes/s more")
    return None


def _stalls(trial: AllocatorTrial) -> str | None:
    if not trial.allocator.stall_free or trial.answer.any() or trial.revisit_at < math.inf:
        return None
    # A coflow with a flow over a failed link may be held back entirely.
    able = np.flatnonzero(np.isfinite(trial.view.gamma))
    if not len(able):
        return None
    return f"no coflow moves though coflow {able[0]} could, and it does not ask to be woken"


PROMISES: dict[str, Promise[AllocatorTrial]] = {
    "view-unchanged": Promise("changes the view", _changes_the_view),
    "well-formed": Promise(_MISFIT, _does_not_fit),
    "feasible": Promise("is not feasible", _overloads),
    "deterministic": Promise("is not deterministic", _is_not_deterministic),
    "host-numbers": Promise("depends on the numbers of hosts", _depends_on_host_names),
    "flow-order": Promise(
        "depends on the order in which a coflow lists its flows (declare order_free = False "
        "if that is intended)", _depends_on_flow_order),
    "job-numbers": Promise("depends on the numbers of jobs", _depends_on_job_numbers),
    "unsent-bytes": Promise(
        "depends on bytes not sent yet, which it declares not to know",
        _peeks_at_sizes),
    "future-coflows": Promise(
        "depends on coflows not emitted yet, which it declares not to know",
        _peeks_ahead),
    "unit-of-time": Promise(
        "depends on the unit of time (declare time_free = False if that is intended)",
        _depends_on_unit_of_time),
    "unit-of-bytes": Promise(
        "depends on the unit of bytes (declare scale_free = False if that is intended)",
        _depends_on_unit_of_bytes),
    "compiled-rule": Promise("differs from its compiled rule", _differs_from_its_rule),
    "work-conserving": Promise("is not work-conserving, as it claims", _is_not_work_conserving),
    "no-stall": Promise("stalls (declare stall_free = False if that is intended)", _stalls),
}
