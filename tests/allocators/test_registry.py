"""Names, options and instances become allocators, or a clear error."""

import sys

import numpy as np
import pytest

import netsim
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.allocators.parrot import Parrot
from netsim.base.plugins import without_code
from netsim.errors import InputError, UnitError, UnknownNameError
from netsim.experiment_file.catalogue import catalogue
from tests.offenders import check_each


def test_four_ways_to_say_the_same():
    ways = ["parrot", {"name": "parrot"}, "netsim.allocators.parrot:Parrot", Parrot, Parrot()]
    assert {make_allocator(way) for way in ways} == {Parrot()}


def test_options():
    made = make_allocator({"name": "parrot", "theta_max": 0.6, "work_conservation": "none"})
    assert made == Parrot(theta_max=0.6, work_conservation="none")
    assert ALLOCATORS.options("parrot") == {"theta_max": 0.9, "work_conservation": "backfill"}
    assert ALLOCATORS.to_dict(made) == {
        "name": "parrot", "theta_max": 0.6, "work_conservation": "none"}


def test_options_on_one_line():
    made = make_allocator("parrot:theta_max=0.6: work_conservation = none")
    assert made == Parrot(theta_max=0.6, work_conservation="none")
    assert make_allocator("netsim.allocators.parrot:Parrot:theta_max=0.6") == Parrot(0.6)


def test_simulate_takes_options_on_one_line():
    result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="parrot:theta_max=0.6")
    assert result.run["allocator"]["theta_max"] == 0.6


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module, and return its name: fresh, for modules stay loaded."""
    def write(text):
        name = f"policy_{tmp_path.name}"
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return write


@pytest.mark.parametrize(("text", "message"), [
    ("\nx = 1 / 0\n", r"cannot be loaded: ZeroDivisionError: division by zero \(.*\.py, line 2\)"),
    ("x = {}['a']", r"cannot be loaded: KeyError: 'a' \(.*\.py, line 1\)"),
    ("import no_such_thing", "cannot be loaded: No module named 'no_such_thing'"),
    ("x = (", r"cannot be loaded: '\(' was never closed \(.*\.py, line 1\)"),
    ("class Other: pass", "the module 'policy_.*' has no attribute 'Mine'$"),
    ("class Mina: pass", r"has no attribute 'Mine' \(did you mean 'Mina'\?\)$"),
    ("import netsim\nclass Mine(netsim.Allocator):\n    def __init__(self): self.x = {}['a']\n",
     r"cannot be made: KeyError: 'a' \(.*\.py, line 3\)"),
    ("import netsim\nclass Mine(netsim.Allocator):\n    def __init__(self, a, b=1): pass\n",
     "allocator 'policy_.*:Mine' needs: a"),
])
def test_a_module_that_fails(module, text, message):
    with pytest.raises(InputError, match=message):
        make_allocator(f"{module(text)}:Mine")


def test_an_unknown_name_says_how_to_name_one_s_own():
    with pytest.raises(UnknownNameError, match=r"; your own is named 'module:Class'$"):
        make_allocator("SmallestFirst")
    with without_code(), pytest.raises(UnknownNameError) as found:
        make_allocator("SmallestFirst")
    assert "module" not in str(found.value)
    with pytest.raises(UnknownNameError, match=r"; your own is named 'module:function'$"):
        netsim.read_workload("parrot-fig2", format="mine")


def test_lists_have_other_names_beside_their_policy():
    assert catalogue("allocators")["aalo"].endswith(" (also named dclas)")
    assert set(catalogue("allocators")) == {*ALLOCATORS, *ALLOCATORS.presets}


def test_an_instance_is_copied():
    class Mine(netsim.Allocator):
        def __init__(self):
            self.seen = []

        def allocate(self, view):
            return netsim.Allocation(order=np.arange(len(view)))

    mine = Mine()
    assert make_allocator(mine).seen is not mine.seen
    assert ALLOCATORS.to_dict(mine)["name"].endswith("Mine")


def test_registered_names_have_a_summary():
    def has_a_summary(name):
        summary = type(make_allocator(name)).__doc__.splitlines()[0]
        assert 20 < len(summary) < 100
        assert ALLOCATORS.to_dict(make_allocator(name))["name"] == name

    check_each(has_a_summary, ALLOCATORS)


@pytest.mark.parametrize(("policy", "error", "message"), [
    ("parot", UnknownNameError, r"unknown allocator 'parot' \(did you mean 'parrot'\?\); choose "
                                r"from: aalo, aalo-lbsf, adadual, coflow-fair, coflows"),
    ({"name": "parrot", "theta": 1}, UnknownNameError, "unknown option .*did you mean 'theta_max'"),
    ("parrot:theta=1", UnknownNameError, "unknown option .*did you mean 'theta_max'"),
    ("parrot:", UnknownNameError, "unknown allocator 'parrot:'"),
    (":Class", UnknownNameError, "unknown allocator ':Class'"),
    ("", UnknownNameError, "unknown allocator ''"),
    ({"theta_max": 0.9}, InputError, "must be a name, or a mapping with a 'name'"),
    ("no.such.module:Class", InputError, "cannot be loaded: No module named 'no'"),
    ("netsim.allocators.parrot:Parot", InputError, "cannot be loaded: .* no attribute 'Parot'"),
    ("netsim.workload:Workload", InputError, "is not an allocator: it must derive from netsim.All"),
    (42, InputError, "42 is not an allocator"),
    (dict, InputError, "is not an allocator"),
    ({"name": "parrot", "theta_max": 1}, InputError, r"must be a number in \[0.5, 1\), not 1"),
    ({"name": "parrot", "theta_max": 0.49}, InputError, r"in \[0.5, 1\), not 0.49"),
    ({"name": "parrot", "theta_max": "high"}, InputError, r"in \[0.5, 1\), not 'high'"),
    ({"name": "parrot", "theta_max": float("nan")}, InputError, r"in \[0.5, 1\), not nan"),
    ({"name": "parrot", "work_conservation": "greedy"}, UnknownNameError,
     "unknown work_conservation 'greedy'; choose from: backfill, none, per_flow, uniform"),
    ({"name": "lccf", "work_conservation": "uniform"}, UnknownNameError,
     "choose from: capped, greedy, maxmin, none, shared_uniform"),
    ({"name": "maxmin", "decisions": "slot"}, UnknownNameError, "choose from: coflow, flow"),
    ({"name": "aalo", "thresholds": ["10MB", "1MB"]}, InputError,
     r"thresholds must increase, not \['10MB', '1MB'\]"),
    ({"name": "aalo", "thresholds": [1, 1]}, InputError, r"must increase, not \[1, 1\]"),
    ({"name": "aalo", "thresholds": 5}, InputError, "thresholds must be a list of sizes, not 5"),
    ({"name": "aalo", "thresholds": ["1XB"]}, UnitError, "'1XB' has the unknown unit 'XB'"),
    ({"name": "aalo", "weights": [1, 2]}, InputError, "each of the 10 queues, not 2 n"),
    ({"name": "aalo", "queues": 2, "weights": [1, 0]}, InputError,
     r"weights must be positive .*, not \[1, 0\]"),
    ({"name": "aalo", "weights": "none"}, UnknownNameError, "choose from: linear, strict"),
    ({"name": "aalo", "queues": 0}, InputError, "queues must be a whole number .* not 0"),
    ({"name": "aalo", "factor": 1}, InputError, "factor must be a finite number greater than 1"),
])
def test_refused(policy, error, message):
    with pytest.raises(error, match=message):
        make_allocator(policy)
