"""Names, options and instances become allocators, or a clear error."""

import pytest

import netsim
from netsim.allocators import ALLOCATORS, allocator_options, describe, make_allocator
from netsim.allocators.parrot import Parrot
from netsim.errors import InputError, UnknownNameError


def test_four_ways_to_say_the_same():
    ways = ["parrot", {"name": "parrot"}, "netsim.allocators.parrot:Parrot", Parrot, Parrot()]
    assert {make_allocator(way) for way in ways} == {Parrot()}


def test_options():
    made = make_allocator({"name": "parrot", "theta_max": 0.6, "work_conservation": "none"})
    assert made == Parrot(theta_max=0.6, work_conservation="none")
    assert allocator_options("parrot") == {"theta_max": 0.9, "work_conservation": "backfill"}
    assert describe(made) == {"name": "parrot", "theta_max": 0.6, "work_conservation": "none"}


def test_an_instance_is_copied():
    class Mine(netsim.Allocator):
        def __init__(self):
            self.seen = []

    mine = Mine()
    assert make_allocator(mine).seen is not mine.seen
    assert describe(mine)["name"].endswith("Mine")


@pytest.mark.parametrize("name", ALLOCATORS)
def test_registered_names_have_a_summary(name):
    summary = type(make_allocator(name)).__doc__.splitlines()[0]
    assert 20 < len(summary) < 100
    assert describe(make_allocator(name))["name"] == name


@pytest.mark.parametrize(("policy", "error", "message"), [
    ("parot", UnknownNameError, r"unknown allocator 'parot' \(did you mean 'parrot'\?\); choose "
                                r"from: aalo, aalo-lbsf, coflow-fair, coflowsim-dark, "),
    ({"name": "parrot", "theta": 1}, UnknownNameError, "unknown option .*did you mean 'theta_max'"),
    ({"theta_max": 0.9}, InputError, "needs a 'name'"),
    ("no.such.module:Class", InputError, "cannot be loaded: No module named 'no'"),
    ("netsim.allocators.parrot:Parot", InputError, "cannot be loaded: .* no attribute 'Parot'"),
    ("netsim.model:Workload", InputError, "is not an allocator: it must derive from netsim.All"),
    (42, InputError, "42 is not an allocator"),
    (dict, InputError, "is not an allocator"),
    ({"name": "parrot", "theta_max": 1}, InputError, r"theta_max must be in \[0.5, 1\), not 1"),
    ({"name": "parrot", "theta_max": 0.49}, InputError, r"in \[0.5, 1\), not 0.49"),
    ({"name": "parrot", "theta_max": "high"}, InputError, r"in \[0.5, 1\), not 'high'"),
    ({"name": "parrot", "theta_max": float("nan")}, InputError, r"in \[0.5, 1\), not nan"),
    ({"name": "parrot", "work_conservation": "greedy"}, UnknownNameError,
     "unknown work_conservation 'greedy'; choose from: backfill, none, per_flow, uniform"),
    ({"name": "lccf", "work_conservation": "uniform"}, UnknownNameError,
     "choose from: capped, greedy, none, shared_uniform"),
    ({"name": "maxmin", "decisions": "slot"}, UnknownNameError, "choose from: coflow, flow"),
])
def test_refused(policy, error, message):
    with pytest.raises(error, match=message):
        make_allocator(policy)
