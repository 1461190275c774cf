"""How checks search: by Hypothesis, the same each time, also in its tests, and without files."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys

import pytest
from hypothesis import configuration, errors, given, settings
from hypothesis import strategies as st

from netsim import Allocation, Allocator
from netsim.errors import InputError
from netsim.testing import check_allocator, check_pattern, check_placement, check_scheduler
from netsim.testing.trial import Promise, Trial, check_drawn, check_each


class Overbooks(Allocator):
    """Gives flows of several coflows twice what there is."""

    def allocate(self, view):
        return Allocation(view.maxmin() * (1 + (len(view) > 1)))


def fault_of(check, subject, **options):
    with pytest.raises(AssertionError) as error:
        check(subject, **options)
    return str(error.value)


def test_an_example_is_found_again():
    found = {fault_of(check_allocator, Overbooks, seed=3)}
    random.seed(7)
    found.add(fault_of(check_allocator, Overbooks, seed=3))
    assert len(found) == 1


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 9))
def test_checks_within_tests_of_hypothesis(seed):
    check_allocator("maxmin", examples=2, seed=seed)
    assert "is not feasible" in fault_of(check_allocator, Overbooks, seed=seed)


def test_nothing_is_written(tmp_path, monkeypatch):
    """Hypothesis would keep the large numbers that it reads in what is not installed."""
    (tmp_path / "own.py").write_text("LARGE = 123456\n")
    spec = importlib.util.spec_from_file_location("own", tmp_path / "own.py")
    monkeypatch.setitem(sys.modules, "own", importlib.util.module_from_spec(spec))
    home = tmp_path / "home"
    monkeypatch.setattr(configuration, "__hypothesis_home_directory", home)
    check_allocator("maxmin", examples=10, promises=["feasible"])
    assert not home.exists()
    assert vars(configuration)["__hypothesis_home_directory"] == home


@pytest.mark.parametrize(("check", "subject"), [
    (check_allocator, "maxmin"), (check_scheduler, "fifo"), (check_placement, "first-fit")])
def test_without_examples_nothing_is_checked(check, subject):
    with pytest.raises(InputError, match="examples must be a whole number of at least 1, not 0"):
        check(subject, examples=0)


def test_without_ranks_nothing_is_checked():
    with pytest.raises(InputError, match="ranks must have at least one number"):
        check_pattern("ring-all-reduce", ranks=[])


class Number(Trial):
    """Something that is broken for large numbers, in one way or another."""

    def __init__(self, number):
        self.number = number

    subject = "it"

    @property
    def example(self):
        return f"at {self.number}"

    def is_large(self):
        return "large" if self.number > 20 else None

    def raises(self):
        if self.number > 10:
            raise ValueError(self.example)


LARGE, RAISES = Promise("breaks", Number.is_large), Promise("raises", Number.raises)


def draw_number(pick):
    return Number(pick(0, 99))


def test_the_smallest_example_is_of_the_promise_that_was_broken_first():
    with pytest.raises(AssertionError, match="it breaks: large, at 21"):
        check_drawn(draw_number, {"large": LARGE}, 100, seed=0)
    with pytest.raises(ValueError, match="at 11"):
        check_drawn(draw_number, {"raises": RAISES, "large": LARGE}, 100, seed=0)


def test_given_examples_are_tried_in_order():
    with pytest.raises(AssertionError, match="it breaks: large, at 50"):
        check_each(map(Number, [3, 50, 21]), {"large": LARGE})
    check_each(map(Number, [3, 9]), {"large": LARGE, "raises": RAISES})


def test_a_draw_that_is_not_repeatable_is_no_success():
    ranges = itertools.count(1)
    with pytest.raises(errors.Flaky):
        check_drawn(lambda pick: Number(pick(0, next(ranges)) % 9), {"large": LARGE}, 100, seed=0)
