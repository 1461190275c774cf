"""Trials of policies, patterns and networks: check promises, and find the smallest example."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from netsim.base.values import as_collection, as_whole
from netsim.errors import InputError, MissingExtraError, UnknownNameError

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Drawn = TypeVar("Drawn")


# --- examples that Hypothesis draws --------------------------------------------------------
class Pick:
    """Draws of Hypothesis, which shrinks to the lowest numbers and the shortest lists."""

    def __init__(self, draw: DrawFn) -> None:
        from hypothesis import strategies

        self._draw, self._strategies = draw, strategies

    def __call__(self, low: int, high: int) -> int:
        """Draw a whole number from low to high."""
        return self._draw(self._strategies.integers(low, high))

    def several(self, low: int, high: int, one: Callable[[], Drawn]) -> list[Drawn]:
        """Draw a list of low to high entries, by a function that draws one."""
        # Hypothesis leaves out an entry, drawn by one strategy, as it lowers their number. From its
        # own lists it leaves out only entries that take few draws.
        entry = self._strategies.none().map(lambda _: one())
        return [self._draw(entry) for _ in range(self(low, high))]


def drawn(function: Callable[[Pick], Drawn]) -> SearchStrategy[Drawn]:
    """Make a strategy that calls a function of a `Pick`."""
    try:
        from hypothesis import strategies
    except ImportError:
        raise MissingExtraError("hypothesis", "test") from None

    @strategies.composite
    def build(draw: DrawFn) -> Drawn:
        return function(Pick(draw))

    return build()


# --- trials and promises -------------------------------------------------------------------
class Trial(ABC):
    """Something under test, and an example to test it on.

    Messages name the subject, as ``"allocator maxmin"``, and end with the example, as ``"on the
    view"`` and the call that makes it.
    """

    @property
    @abstractmethod
    def subject(self) -> str:
        """The policy, pattern or network with its options."""

    @property
    @abstractmethod
    def example(self) -> str:
        """The example in words."""

    @property
    def refusal(self) -> InputError | None:
        """The error with which the subject refuses the example; None if it accepts it."""
        return None


class BrokenPromise(Exception):
    """A broken promise, and the trial that shows it; functions that find faults may raise it."""

    def __init__(self, trial: Trial, promise: str, fault: str) -> None:
        super().__init__(f"{trial.subject} {promise}: {fault}, {trial.example}")
        self.promise = promise


T = TypeVar("T", bound=Trial)


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


# --- the search for a broken promise -------------------------------------------------------
def check_drawn(draw: Callable[[Pick], T], promises: Promises[T], examples: int, seed: int) -> None:
    """Check promises on trials that Hypothesis draws, and shrinks once a promise is broken.

    The AssertionError has the smallest example found that breaks the same promise. An exception of
    the subject is raised with the smallest example on which it has the same type.
    """
    examples = as_whole(examples, "examples", 1)
    trials, search = drawn(draw), _Search(promises)  # first: without Hypothesis, it says so
    from hypothesis import Phase, currently_in_test_context, errors, find, settings

    def hunt() -> None:
        find(trials, search.finds_fault, random=Random(seed), settings=settings(
            max_examples=examples, phases=(Phase.generate, Phase.shrink), database=None,
            deadline=None))

    try:
        with _nothing_stored():
            if currently_in_test_context():
                # Hypothesis does not search within a test that it runs. A thread is outside of it.
                with ThreadPoolExecutor(1) as outside:
                    outside.submit(hunt).result()
            else:
                hunt()
    except errors.NoSuchExample:
        pass
    except errors.Flaky:
        # What is not deterministic may keep its promises when an example is tried again.
        if search.fault is None:
            raise
    search.report(f"{examples} examples")


@contextmanager
def _nothing_stored() -> Iterator[None]:
    """Keep Hypothesis from making a folder for the numbers that it reads in a user's modules."""
    from hypothesis.configuration import set_hypothesis_home_dir, storage_directory

    home: Any = storage_directory(intent_to_write=False)
    set_hypothesis_home_dir(os.devnull)
    try:
        yield
    finally:
        set_hypothesis_home_dir(getattr(home, "path", home))  # a path, in earlier versions


def check_each(trials: Iterable[T], promises: Promises[T], all_of: str = "") -> None:
    """Check promises on the given trials, up to the first that breaks one.

    `all_of` names the examples in the message if all are refused.
    """
    search = _Search(promises)
    any(map(search.finds_fault, trials))
    search.report(all_of)


class _Search(Generic[T]):
    """A search for a trial that breaks a promise, or for an exception of the subject."""

    def __init__(self, promises: Promises[T]) -> None:
        self._promises = promises
        self.fault: Exception | None = None  #: the latest, of the same kind as the first
        self._accepted = False
        self._refused: T | None = None  #: the last trial whose example was refused

    def finds_fault(self, trial: T) -> bool:
        """Whether a trial shows a fault; once one was found, whether it shows one of that kind."""
        for name, promise in self._promises.items():
            fault = self._fault_in(trial, promise)
            if fault is not None and (self.fault is None or _kind(fault) == _kind(self.fault)):
                # The smallest example is to show this fault; other promises would only take time.
                self.fault, self._promises = fault, {name: promise}
                return True
        return False

    def _fault_in(self, trial: T, promise: Promise[T]) -> Exception | None:
        """The fault of a trial that breaks a promise, or the exception of its subject."""
        try:
            if trial.refusal is not None:
                self._refused = trial
                return None
            self._accepted = True
            fault = promise.find_fault(trial)
        except Exception as error:  # the subject may raise anything
            return error
        return BrokenPromise(trial, promise.broken, fault) if fault else None

    def report(self, all_of: str) -> None:
        """Raise the exception that was found, or an AssertionError for a broken promise."""
        if isinstance(self.fault, BrokenPromise):
            raise AssertionError(str(self.fault))
        if self.fault is not None:
            raise self.fault
        if self._refused is not None and not self._accepted:
            raise AssertionError(f"{self._refused.subject} refuses all of {all_of}, the last with: "
                                 f"{self._refused.refusal}")


def _kind(fault: Exception) -> str | type[Exception]:
    """The promise that is broken, or the type of another exception."""
    return fault.promise if isinstance(fault, BrokenPromise) else type(fault)


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to exceptions of the body."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
