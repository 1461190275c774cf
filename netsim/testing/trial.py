"""Search for a broken promise, and the smallest example that shows it; an allocator on one view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.values import as_collection
from netsim.errors import InputError, UnknownNameError
from netsim.fabric.allocation import Allocation
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView
from netsim.testing.cases import Case

Floats = NDArray[np.float64]


# --- the search ----------------------------------------------------------------------------
class Shrinkable(Protocol):
    """A policy, pattern or network under test, and an example to test it on.

    Messages name the subject, as ``"allocator maxmin"``, and end with the example, as ``"on the
    view"`` and the call that makes it.
    """

    @property
    def subject(self) -> str: ...

    @property
    def example(self) -> str: ...

    def smaller(self) -> Iterator[Self]:
        """Yield trials on smaller examples, the smallest first."""


class Refusable(Shrinkable, Protocol):
    """A trial whose example the thing under test may refuse."""

    @property
    def refusal(self) -> InputError | None:
        """The error with which the thing under test refuses the example; None if it accepts it."""


T = TypeVar("T", bound=Shrinkable)

R = TypeVar("R", bound=Refusable)


class Promise(NamedTuple, Generic[T]):
    """A promise that policies, patterns or networks make."""

    broken: str  #: the message about a policy, pattern or network that breaks the promise
    find_fault: Callable[[T], str | None]  #: the fault in a trial, or None


#: Promises by name, in the order in which they are checked.
Promises = Mapping[str, Promise[T]]


def chosen(promises: Promises[T], names: Iterable[str] | None) -> Promises[T]:
    """Select the promises with the given names, in their usual order; all if `names` is None."""
    if names is None:
        return promises
    given = as_collection(names, "promises", str, "names")
    for name in given:
        if name not in promises:
            raise UnknownNameError("promise", name, promises)
    if not given:
        raise InputError("promises must name at least one, or be None for all of them")
    return {name: promise for name, promise in promises.items() if name in given}


class BrokenPromise(Exception):
    """A broken promise and the trial that shows it; functions that find faults may raise it."""

    def __init__(self, trial: Shrinkable, promise: str, fault: str) -> None:
        super().__init__(f"{trial.subject} {promise}: {fault}, {trial.example}")
        self.trial: Any = trial
        self.promise = promise


def hunt(trials: Iterable[T], promises: Promises[T]) -> None:
    """Check promises on trials until one is broken.

    The AssertionError has the smallest example found that breaks the same promise.
    """
    for trial in trials:
        broken = _find_broken(trial, promises)
        if broken is not None:
            raise AssertionError(str(_smallest(broken, promises))) from None


def hunt_accepted(trials: Iterable[R], promises: Promises[R], all_refused: Callable[[], str]
                  ) -> None:
    """Check promises as `hunt` does, on the trials whose examples are not refused.

    It is an AssertionError if all are refused; `all_refused` returns the beginning of its message.
    """
    refusals: list[InputError] = []
    accepted = 0

    def sieved() -> Iterator[R]:
        nonlocal accepted
        for trial in trials:
            if (refusal := trial.refusal) is not None:
                refusals.append(refusal)
                continue
            accepted += 1
            yield trial

    hunt(sieved(), promises)
    if not accepted:
        last = f", the last with: {refusals[-1]}" if refusals else ""
        raise AssertionError(f"{all_refused()}{last}")


def _find_broken(trial: T, promises: Promises[T]) -> BrokenPromise | None:
    """Find the first promise that a trial breaks, if any."""
    try:
        for promise in promises.values():
            fault = promise.find_fault(trial)
            if fault:
                return BrokenPromise(trial, promise.broken, fault)
    except BrokenPromise as broken:
        return broken
    return None


def _smallest(broken: BrokenPromise, promises: Promises[Any]) -> BrokenPromise:
    """Shrink a trial as long as it breaks the same promise."""
    for smaller in broken.trial.smaller():
        again = _find_broken(smaller, promises)
        if again is not None and again.promise == broken.promise:
            return _smallest(again, promises)
    return broken


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to exceptions of the body."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise


# --- trials --------------------------------------------------------------------------------

#: The message about an allocator whose answer is not valid.
MISFIT = "does not return an Allocation that fits the view"


Policy = str | Mapping[str, Any] | Allocator | type[Allocator]


@dataclass(frozen=True)
class Trial:
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

    def smaller(self) -> Iterator[Trial]:
        """Yield trials on smaller views."""
        for case in self.case.smaller():
            yield replace(self, case=case)

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
            raise BrokenPromise(other, MISFIT, fault)
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
