"""Check that an allocator keeps the promises that the fabric and its users rely on.

Each promise is a function that returns the fault it finds, if any.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from netsim.base.values import known_names
from netsim.fabric.allocation import Information, sees
from netsim.fabric.allocator import CompiledAllocator
from netsim.fabric.records import DUST
from netsim.fabric.rule_code import RuleRunner
from netsim.fabric.view import FabricView
from netsim.network import BigSwitch, Topology
from netsim.testing import cases
from netsim.testing.cases import draw_case, draw_network
from netsim.testing.trial import MISFIT, Policy, Promise, Trial, chosen, hunt, listed, noted

# --- promises ------------------------------------------------------------------------------

#: Factors of the units. Powers of two scale without rounding, so that answers are the same to the
#: last bit unless the allocator uses absolute amounts.
_SECONDS, _BYTES = (2.0**6, 2.0**-16), 2.0**12

#: Names of the properties of a view.
_SHOWN = [name for name, value in inspect.getmembers_static(FabricView)
          if isinstance(value, property | cached_property) and not name.startswith("_")]


def _changes_the_view(trial: Trial) -> str | None:
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


def _does_not_fit(trial: Trial) -> str | None:
    trial.answer  # noqa: B018  # raises BrokenPromise itself
    return None


def _overloads(trial: Trial) -> str | None:
    load, capacity = trial.view.link_load(trial.answer), trial.view.capacity
    over = np.flatnonzero(load > capacity * (1 + DUST))
    if not len(over):
        return None
    link = over[0]
    return (f"it puts {load[link]:.9g} of {capacity[link]:.9g} bytes/s on link "
            f"{trial.case.network.link_names[link]!r}")


def _is_not_deterministic(trial: Trial) -> str | None:
    again = trial.rates(trial.case)
    if np.array_equal(again, trial.answer):
        return None
    return f"asked again, it gives flows {listed(again)} bytes/s and not {listed(trial.answer)}"


def _depends_on_host_names(trial: Trial) -> str | None:
    if not isinstance(trial.case.network, BigSwitch):
        return None
    names = trial.rng().permutation(trial.case.network.hosts).tolist()
    return trial.difference(cases.rename_hosts(trial.case, names),
                         f"if hosts are numbered {names}")


def _depends_on_flow_order(trial: Trial) -> str | None:
    if not (trial.allocator.order_free and isinstance(trial.case.network, BigSwitch)):
        return None
    rng = trial.rng()
    orders = [rng.permutation(len(flows)).tolist() for flows in trial.case.coflows]
    other, places = cases.reorder_flows(trial.case, orders)
    return trial.difference(other, f"if flows are listed in the order {orders}", places=places)


def _depends_on_job_numbers(trial: Trial) -> str | None:
    numbers = np.cumsum(trial.rng().integers(1, 4, len(trial.case.arrival_s))).tolist()
    return trial.difference(cases.renumber_jobs(trial.case, numbers),
                            f"if jobs are numbered {numbers}, with idle ones between")


def _peeks_at_sizes(trial: Trial) -> str | None:
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


def _differs_from_its_rule(trial: Trial) -> str | None:
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


def _peeks_ahead(trial: Trial) -> str | None:
    hidden: Sequence[tuple[str, Information, str]] = (
        ("ahead_s", "job-clairvoyant", "if jobs have more to emit"),
        ("predicted_s", "predicted", "if jobs are predicted to emit more"))
    for name, needs, what in hidden:
        if not sees(trial.allocator.information, needs):
            other = cases.more_ahead(trial.case, 64.0, name)
            if fault := trial.difference(other, what):
                return fault
    return None


def _depends_on_unit_of_time(trial: Trial) -> str | None:
    if not trial.allocator.time_free:
        return None
    for factor in _SECONDS:
        fault = trial.difference(cases.scale_time(trial.case, factor),
                                 f"if the unit of time is {factor:g} times as long", factor=factor)
        if fault:
            return fault
    return None


def _depends_on_unit_of_bytes(trial: Trial) -> str | None:
    if not trial.allocator.scale_free:
        return None
    return trial.difference(cases.scale_bytes(trial.case, _BYTES),
                         f"if sizes and capacities are {_BYTES:g} times as large", factor=_BYTES)


def _is_not_work_conserving(trial: Trial) -> str | None:
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


def _stalls(trial: Trial) -> str | None:
    if not trial.allocator.stall_free or trial.answer.any() or trial.revisit_at < math.inf:
        return None
    # A coflow with a flow over a failed link may be held back entirely.
    able = np.flatnonzero(np.isfinite(trial.view.gamma))
    if not len(able):
        return None
    return f"no coflow moves though coflow {able[0]} could, and it does not ask to be woken"


PROMISES: dict[str, Promise[Trial]] = {
    "view-unchanged": Promise("changes the view", _changes_the_view),
    "well-formed": Promise(MISFIT, _does_not_fit),
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


# --- the check -----------------------------------------------------------------------------

_LARGEST = 5


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
        Number of random views. They grow from one flow to five coflows of five flows.
    seed : int
        Seed of the views.

    Raises
    ------
    AssertionError
        If a promise is broken. The message names the allocator and the promise, with the smallest
        view found that shows it. Exceptions of the allocator itself propagate, with a note of the
        view.

    Examples
    --------
    >>> from netsim.testing import check_allocator
    >>> check_allocator({"name": "aalo-lbsf", "work_conservation": "none"}, examples=5)
    """
    rng = np.random.default_rng(seed)
    given = None if networks is None else list(networks)

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high, endpoint=True))

    def trials() -> Iterator[Trial]:
        for example in range(examples):
            size = 1 + _LARGEST * example // examples
            network = given[example % len(given)] if given else draw_network(pick, 2, 1 + size)
            yield Trial(policy, draw_case(pick, network, size, size), seed + example)

    hunt(trials(), chosen(PROMISES, promises))
