"""Promises by name: listed, chosen, and checked one at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest

import netsim
from netsim import Allocation, Allocator
from netsim.errors import InputError, UnknownNameError
from netsim.testing import (
    check_allocator,
    check_pattern,
    check_placement,
    check_scheduler,
    check_topology,
    promises_of,
)
from tests.examples import examples
from tests.offenders import check_each

#: Each check, with something that keeps all of its promises.
KEPT = [(check_allocator, "sebf", {"examples": 5}), (check_scheduler, "tiresias", {"examples": 5}),
        (check_placement, "least-busy-servers", {"examples": 10}),
        (check_pattern, "ring-all-reduce", {"total": lambda w, n: 2 * (w - 1) * n}),
        (check_topology, "torus-4x4x4-400g", {"symmetric": True, "pairs": 50})]


@pytest.mark.parametrize(("check", "subject", "options"), KEPT, ids=[name for _, name, _ in KEPT])
def test_each_alone_is_kept(check, subject, options):
    check_each(lambda promise: check(subject, promises=[promise], **options), promises_of(check))


class Idle(Allocator):
    """Nobody moves."""

    def allocate(self, view):
        return Allocation(np.zeros(view.flows))


class Greedy(Allocator):
    """Each flow gets all of the fastest link."""

    def allocate(self, view):
        return Allocation(np.full(view.flows, view.capacity.max()))


class Odd(Allocator):
    """One rate too many."""

    def allocate(self, view):
        return Allocation(np.zeros(view.flows + 1))


class Slow(Allocator):
    """A byte per second, at most, whatever the units."""

    def allocate(self, view):
        return Allocation(np.minimum(view.maxmin(), 1.0))


@pytest.mark.parametrize(("policy", "broken"), [
    (Idle, {"no-stall"}), (Greedy, {"feasible"}), (Slow, {"unit-of-time", "unit-of-bytes"})])
def test_a_broken_promise_is_found_by_its_name_only(policy, broken):
    """What else is wrong is not looked at."""
    for promise, words in promises_of(check_allocator).items():
        if promise in broken:
            with pytest.raises(AssertionError, match=re.escape(f"{policy.__name__} {words}: ")):
                check_allocator(policy, promises=[promise], examples=20)
        else:
            check_allocator(policy, promises=[promise], examples=examples(20))


def test_what_is_no_allocation_is_found_under_its_name():
    with pytest.raises(AssertionError, match="Odd does not return an Allocation that fits the vi"):
        check_allocator(Odd, promises=["well-formed"])


def test_several_are_checked_in_their_usual_order():
    with pytest.raises(AssertionError, match="depends on the unit of time"):
        check_allocator(Slow, promises=["unit-of-bytes", "unit-of-time"])
    with pytest.raises(AssertionError, match="depends on the unit of bytes"):
        check_allocator(Slow, promises=["unit-of-bytes"])


class Forgetful:
    """A scheduler that starts no job."""

    def decide(self, view):
        return []


def test_a_scheduler_that_starts_nobody_does_not_get_through_a_run():
    with pytest.raises(AssertionError, match="leaves jobs waiting forever"):
        check_scheduler(Forgetful, promises=["runs"])


def test_names_that_are_none():
    with pytest.raises(UnknownNameError, match=r"unknown promise 'feasable' \(did you mean 'feas"):
        check_allocator("maxmin", promises=["feasable"])
    with pytest.raises(InputError, match="promises must be a list of names, not 'feasible'"):
        check_allocator("maxmin", promises="feasible")
    with pytest.raises(InputError, match="at least one"):
        check_allocator("maxmin", promises=[])
    with pytest.raises(InputError, match=r"is no check of netsim\.testing; choose from: check_a"):
        promises_of(netsim.simulate)
