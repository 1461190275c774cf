"""Search for a broken promise and for the smallest example that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from netsim.checks import check_collection
from netsim.errors import InputError, UnknownNameError


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
    given = check_collection(names, str, "promises", "names")
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
