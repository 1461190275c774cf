"""Policies that users write as compiled functions."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar

import numpy as np

from netsim.base.values import as_collection, known_names
from netsim.errors import AllocationError, InputError
from netsim.fabric.allocation import Allocation, Event, Information, as_event
from netsim.fabric.allocator import Allocator
from netsim.fabric.rule import Rule, columns_in
from netsim.fabric.view import FabricView

#: What a rule takes.
_TAKES = ("coflows", "jobs", "now", "order")


class CompiledAllocator(Allocator):
    """Base class of the policies that `compiled` makes from functions."""

    #: The rule, with the defaults of its options.
    base_rule: ClassVar[Rule]

    def __post_init__(self) -> None:
        for name, value in self._own_rule().options.items():  # checked and converted
            object.__setattr__(self, name, value)

    @property
    def compiled_rule(self) -> Rule:
        """The compiled rule, with the options of this policy."""
        return self._own_rule()

    def _own_rule(self) -> Rule:
        return self.base_rule.with_options(**{
            name: getattr(self, name) for name in self.base_rule.options})

    @property
    def leftover(self) -> str:
        """How left-over bandwidth is allocated; see `compiled`."""
        return self.base_rule.leftover

    def allocate(self, view: FabricView) -> Allocation:
        """Call the rule once; see `Allocator.allocate`."""
        from netsim.fabric.policy import RuleError, RuleRunner

        runner = RuleRunner(self._own_rule(), view._table)
        try:
            runner.ask(view.now)
        except RuleError as error:
            raise AllocationError(f"allocator {self.title} at t = {view.now:g} s {error}"
                                  ) from error
        allocation = runner.allocation()
        if runner.rule.in_step and np.isfinite(runner.limit).any():
            at = view.crossings(runner.limit, view.rates(allocation)).min()
            allocation.revisit_at = min(allocation.revisit_at, max(
                float(at), math.nextafter(view.now, math.inf)))
        return allocation


@known_names
def compiled(function: Callable[..., None] | None = None, *,
             gives: str = "order", leftover: str = "none", stretch: str = "none",
             information: Information = "clairvoyant", wakes_on: str | Event = "coflow",
             reads: Collection[str] | None = None, ties: str = "job", rounding: bool = False,
             options: Mapping[str, float] | None = None, notes: Mapping[str, type] | None = None,
             queues: int = 0) -> Any:
    """Turn a function into a policy that the fabric calls in its own loop, compiled by Numba.

    The function is called as ``rule(coflows, jobs, now, order)``. It reads columns, such as
    ``coflows[c].sent`` and ``jobs[coflows[c].job].attained``, and writes its answer to ``order``.
    It cannot write the columns, returns nothing, and has no state.

    Parameters
    ----------
    function : callable
        The function to decorate.
    gives : {"order", "shares", "weights", "queues", "flows"}
        What the function fills in. ``"order"``: ``order.key[c]``. Coflows are served by increasing
        key, each with the largest share of its LP rates that still fits (MADD). ``"shares"``:
        ``order.share[c]``, as multiples of LP rates. ``"weights"``: ``order.weight[c]``. The flows
        of a coflow split its weight, and links are shared max-min fairly by weight. ``"queues"``:
        ``order.queue[c]``, and ``order.part[q]``, the part of each link that a queue gets. Within a
        queue, coflows are served by key, and the flows of each share what is left max-min fairly.
        ``"flows"``: flows are served by the bytes they have left, then by ``order.key[c]``, each
        with all that its links have left.
    leftover : {"none", "maxmin", "greedy"}
        Who gets left-over bandwidth, with an order or queues. ``"none"``: nobody. ``"maxmin"``: it
        is offered to coflows in order, and the flows of a coflow share it max-min fairly.
        ``"greedy"``: each flow in order takes as much as its links have left. With the last two,
        each flow is simulated separately, which is slower.
    stretch : {"none", "all", "others"}
        Whether shares grow before coflows are served in order. ``"all"``: all shares, by the
        largest common factor that fits. ``"others"``: those of coflows without a share, to the
        largest common share that fits.
    information : {"agnostic", "clairvoyant", "predicted", "job-clairvoyant"}
        What the function may read; see `netsim.Allocator`. Reading more is refused, whatever
        `reads` says. The fabric itself always knows sizes, even when it serves the order of an
        agnostic policy. An agnostic policy cannot give shares or flows, which follow from sizes.
    wakes_on : {"coflow", "flow"} or Event
        When the function is called. ``"coflow"``: when coflows come or end, or a link that
        they use fails or is repaired. If its capacity only changes, what the function saw, and so
        what it said, stands; only shares are asked for again.
        ``"flow"``: also when flows end. This makes no difference with `leftover`, with queues or
        with flows: the fabric then sets rates again at each end of a flow, without a call.
    reads : collection of str, optional
        The columns that are kept up to date; others are NaN, or -1. By default, all columns named
        in the function or in compiled functions that it calls.
    ties : {"job", "arrival"}
        How coflows with equal key and equal ``order.tie[c]`` are ordered: by job, or by the time
        they became valid.
    rounding : bool
        Whether keys that differ only by rounding errors count as equal; see `netsim.ties`.
    options : mapping of str to float, optional
        Options of the policy and their defaults; ``order.options[k]`` is the k-th.
    notes : mapping of str to type, optional
        Names of numbers to record with each decision, and their types, float or int;
        ``order.note[k]`` is the k-th.
    queues : int
        The largest number of queues.

    Returns
    -------
    type
        A class of allocators, with the options as its fields.

    Raises
    ------
    InputError
        If the function has another signature or reads a column that it may not know, or arguments
        contradict each other. If it reads such a column unnoticed so far, or the code cannot be
        compiled, the error is raised at first use.

    Notes
    -----
    ``order`` has more fields. With an order, ``order.share[k]`` is the share that the k-th coflow
    in order gets before all others, and ``order.most[k]`` limits what it gets after that. The
    function is called again when coflow c has sent ``order.limit[c]`` bytes, and at the time
    ``order.wake_at[0]``.

    Examples
    --------
    >>> import netsim
    >>> @netsim.compiled(information="agnostic")
    ... def least_attained(coflows, jobs, now, order):
    ...     for c in range(len(coflows)):
    ...         order.key[c] = jobs[coflows[c].job].attained
    >>> least_attained()
    least_attained()
    """
    def decorate(function: Callable[..., None]) -> type[CompiledAllocator]:
        events = as_event(wakes_on)
        _check_signature(function)
        given, kept = dict(options or {}), dict(notes or {})
        _check_names(function.__name__, given, kept)
        rule = Rule(function, gives, leftover, stretch, ties, rounding, information, events,
                    frozenset(columns_in(function) if reads is None else
                              as_collection(reads, "reads", str, "columns")), given, kept, queues)
        return dataclasses.make_dataclass(
            function.__name__, [(name, float, default) for name, default in given.items()],
            bases=(CompiledAllocator,), frozen=True,
            namespace={"base_rule": rule, "information": information,
                       "wakes_on": events, "__doc__": function.__doc__,
                       "__module__": function.__module__,
                       "__qualname__": function.__qualname__})

    return decorate if function is None else decorate(function)


def _check_signature(function: Callable[..., None]) -> None:
    if not inspect.isfunction(function):
        raise InputError("compiled decorates a function rule(coflows, jobs, now, order), not "
                         f"{function!r}")
    code = function.__code__
    takes = inspect.signature(function)
    if tuple(name.strip("_") for name in takes.parameters) != _TAKES:
        raise InputError(f"rule {function.__name__} must take {len(_TAKES)} arguments, "
                         f"({', '.join(_TAKES)}), not {takes} ({code.co_filename}, line "
                         f"{code.co_firstlineno})")


def _check_names(rule: str, options: Mapping[str, float], notes: Mapping[str, type]) -> None:
    for name in options:
        if not (isinstance(name, str) and name.isidentifier()) or keyword.iskeyword(name) \
                or hasattr(CompiledAllocator, name):
            raise InputError(f"rule {rule} cannot have an option {name!r}: it must be a name that "
                             "is no attribute of allocators", "options")
    for name, kind in notes.items():
        if kind not in (float, int):
            raise InputError(f"rule {rule}: note {name} must be float or int, not {kind!r}",
                             "notes")
