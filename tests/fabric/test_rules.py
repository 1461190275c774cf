"""Compiled rules decide as their policies do in Python, whoever has written them."""

import dataclasses
import os
import subprocess
import sys
import types
import warnings

import numba
import numpy as np
import pytest

import netsim
import netsim.fabric.event_loop
import netsim.fabric.flow_table
from netsim.allocators import make_allocator
from netsim.base.files import cache_folder
from netsim.errors import AllocationError, InputError, UnknownNameError
from netsim.fabric.rule_code import compiled_rule, key_of
from netsim.testing import make_view
from tests.pairs import but, few, in_turn

POLICIES = [f"{name}:work_conservation={each}" for name, choices in (
    ("parrot", ("none", "uniform", "backfill")),
    ("aalo-lbsf", ("greedy", "none", "capped", "shared_uniform")),
    ("lccf", ("greedy", "none", "capped", "shared_uniform")),
    ("srpt", ("greedy", "none", "capped", "shared_uniform"))) for each in choices]


#: Those that follow flows one by one.
BY_FLOW = ["fifo", "scf", "lcf", "lcf:key=remaining", "ncf", "ncf:key=remaining", "sebf",
           "sebf:key=original", "sebf:work_conservation=greedy", "sebf:work_conservation=none",
           "srtf", "coflow-fair", "aalo:first_threshold=2:queues=4",
           "aalo:first_threshold=2:queues=4:weights=strict", "srpt:work_conservation=maxmin"]


class InPython(netsim.Allocator):
    """The same policy, asked each time."""

    def __init__(self, policy):
        self._policy = make_allocator(policy)
        self.information = self._policy.information
        self.wakes_on = self._policy.wakes_on

    def allocate(self, view):
        return self._policy.allocate(view)


def assert_same_in_python(policy, network, jobs, **options):
    """Each decision is the same arithmetic in the same order, so that nothing differs at all."""
    fast, slow = (netsim.simulate(network, jobs, allocator=each, **options)
                  for each in (policy, InPython(policy)))
    assert fast.jobs.equals(slow.jobs)
    assert fast.coflows.equals(slow.coflows)
    assert fast.run["decisions"] == slow.run["decisions"]


def chains(seed, count=12, hosts=8):
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(count):
        ranks = int(rng.integers(2, hosts))
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        flows = netsim.Flows(src, dst, rng.uniform(1, 9, len(src)))
        stages = [netsim.Stage("a", flows),
                  netsim.Stage("b", [(0, 1, rng.uniform(1, 9))], compute_s=rng.integers(0, 2) * 0.7,
                               after=["a"])]
        jobs.append(netsim.JobSpec(k, rng.uniform(0, 20), hosts=rng.permutation(hosts)[:ranks],
                                   stages=stages, iterations=int(rng.integers(1, 30))))
    return jobs


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("interval", [0, 0.5])
def test_bit_for_bit(policy, interval):
    assert_same_in_python(policy, netsim.big_switch(8, 1.0, loopback_uses_ports=True), chains(5),
                          observe_interval=interval)


class AtEachEvent(InPython):
    """Asked when the clock is there: a policy that sees which jobs run is not asked ahead."""

    sees_running = True


@pytest.mark.parametrize("policy", ["parrot", "aalo-lbsf", "lccf:work_conservation=capped"])
@pytest.mark.parametrize("interval", [0, 0.5])
def test_asked_ahead_of_the_clock_or_not(policy, interval):
    network, jobs = netsim.big_switch(8, 1.0, loopback_uses_ports=True), chains(5)
    ahead, not_ahead = (netsim.simulate(network, jobs, allocator=each(policy),
                                        observe_interval=interval)
                        for each in (InPython, AtEachEvent))
    assert ahead.jobs.equals(not_ahead.jobs)
    assert ahead.coflows.equals(not_ahead.coflows)
    assert ahead.run["simpy_events"] < not_ahead.run["simpy_events"] / 4


def test_who_changes_the_form_of_its_answer_ahead_of_the_clock():
    """An order and rates by turns: the loop stops where it cannot go on."""
    class Both(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW
        rates = False

        def allocate(self, view):
            self.rates = not self.rates
            order = np.argsort(view.job, kind="stable")
            return netsim.Allocation(view.madd(order)[0]) if self.rates else netsim.Allocation(
                order=order)

    class InOrder(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def allocate(self, view):
            return netsim.Allocation(order=np.argsort(view.job, kind="stable"))

    np.testing.assert_allclose(finishes(allocator=Both), finishes(allocator=InOrder), rtol=1e-12)


@pytest.mark.parametrize("policy", few([*POLICIES, *BY_FLOW], 15))
def test_bit_for_bit_with_dead_links(policy):
    """A port that many jobs use is dead for a while, and so is one from host to host."""
    network = netsim.big_switch(8, 1.0, loopback_uses_ports=True)
    events = [{"at": at, "link": link, "capacity": capacity} for at, link, capacity in (
        (50.3, "egress-0", 0), (170.1, "egress-0", 1), (100.7, "ingress-3", 0),
        (300.2, "ingress-3", 1))]
    assert_same_in_python(policy, network, chains(7), events=events)


@pytest.mark.parametrize("policy", ["parrot", "aalo-lbsf", "lccf", "srpt", *BY_FLOW])
def test_several_coflows_of_a_job(policy):
    """Where a job has two coflows at once, Parrot has another rule."""
    stages = [netsim.Stage("a", [(0, 1, 2.0)]), netsim.Stage("b", [(1, 0, 1.0)]),
              netsim.Stage("c", [(2, 0, 1.0)], release_s=1.5)]
    jobs = [netsim.JobSpec(99, hosts=[0, 1, 2], stages=stages, iterations=5), *chains(6, 3)]
    assert_same_in_python(policy, netsim.big_switch(8, 1.0), jobs)


@pytest.mark.parametrize(("policy", "interval"), few(in_turn(BY_FLOW, [0, 0.5]), 15))
def test_flows_one_by_one(policy, interval):
    assert_same_in_python(policy, netsim.big_switch(8, 1.0, loopback_uses_ports=True), chains(8),
                          observe_interval=interval)


@pytest.mark.parametrize("policy", ["sebf", "aalo:first_threshold=2:queues=4"])
def test_orders_of_flows_one_by_one_are_asked_in_the_event_loop(policy):
    """SimPy's events are then those of arrivals and, under Aalo, of limits."""
    fast, slow = (netsim.simulate(netsim.big_switch(8, 1.0), chains(8), allocator=each)
                  for each in (policy, InPython(policy)))
    assert fast.run["simpy_events"] < slow.run["simpy_events"] * 2 / 3


@pytest.mark.parametrize("policy", ["parrot", "sebf:work_conservation=greedy", "fifo"])
def test_notes_are_those_of_the_policy(policy):
    fast, slow = (netsim.simulate(netsim.big_switch(8, 1.0), chains(5), allocator=each,
                                  record=["decisions"]).decisions
                  for each in (policy, InPython(policy)))
    assert fast.equals(slow)


def test_who_overrides_a_policy_has_no_rule_of_its():
    class Reversed(make_allocator("sebf").__class__):
        def keys(self, view):
            return -view.gamma

    class Narrow(make_allocator("parrot").__class__):
        def theta(self, view):
            return 0.5

    assert Reversed().compiled_rule is None
    assert Narrow().compiled_rule is None
    assert dataclasses.replace(make_allocator("sebf"), key="original").compiled_rule is not None


# --- rules of one's own --------------------------------------------------------------------


@netsim.compiled(information="agnostic", wakes_on="coflow")
def least_attained(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = jobs[coflows[c].job].attained


class LeastAttained(netsim.Allocator):
    wakes_on = netsim.Event.COFLOW

    def allocate(self, view):
        return netsim.Allocation(order=np.lexsort((view.job, view.job_attained)))


def finishes(jobs=None, network=None, **options):
    return netsim.simulate(netsim.big_switch(8, 1.0) if network is None else network,
                           chains(5) if jobs is None else jobs,
                           **options).jobs["finish_s"].to_numpy()


def test_an_order_in_four_lines_and_compiled():
    expected = finishes(allocator="aalo-lbsf")
    np.testing.assert_array_equal(finishes(allocator=least_attained), expected)
    np.testing.assert_array_equal(finishes(allocator=LeastAttained), expected)


@pytest.mark.parametrize("leftover", ["maxmin", "greedy"])
def test_what_an_order_leaves_over(leftover):
    """Smallest bottleneck first is SEBF."""
    class Smallest(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW

        def allocate(self, view):
            return netsim.Allocation(order=np.argsort(view.gamma, kind="stable"),
                                     leftover=leftover)

    @netsim.compiled(leftover=leftover)
    def smallest(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = coflows[c].gamma

    expected = finishes(allocator=f"sebf:work_conservation={leftover}")
    np.testing.assert_array_equal(finishes(allocator=smallest), expected)
    np.testing.assert_array_equal(finishes(allocator=Smallest), expected)


@netsim.compiled(reads=["id"])
def shuffled(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = (coflows[c].id * 7919 + np.floor(now * 10)) % 13


class Shuffled(netsim.Allocator):
    wakes_on = netsim.Event.COFLOW

    def allocate(self, view):
        key = (view.id * 7919 + np.floor(view.now * 10)) % 13
        return netsim.Allocation(order=np.lexsort((view.job, key)))


@pytest.mark.parametrize("held", [False, True])
def test_an_order_does_not_depend_on_the_last_one(held):
    """A sort starts from the last order, whatever that was, and ends with the same one."""
    found = []
    for allocator in (shuffled(), Shuffled()):
        sim = netsim.Simulation(netsim.big_switch(8, 1.0, loopback_uses_ports=True), chains(7, 40),
                                allocator=allocator)
        for until in np.arange(1.0, 30.0, 1.7) if held else ():
            sim = sim.run(until=until).fork()
        found.append(sim.run().result())
    assert found[0].coflows.equals(found[1].coflows)


def test_keys_below_0_that_rounding_makes_differ():
    """-(0.1 + 0.2) is a rounding below -0.3: a tie of two jobs of 6 bytes, so that 0 is first."""
    @netsim.compiled(rounding=True, information="agnostic")
    def tied(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = -(0.1 + 0.2) if coflows[c].job == 1 else -0.3

    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
            for k in range(2)]
    np.testing.assert_allclose(finishes(jobs, netsim.big_switch(2, 1.0), allocator=tied), [6, 12])


def test_shares():
    """Two jobs of 6 bytes over one link of 1 byte/s, at 1/4 and 3/4 of it.

    The second ends at 6 / 0.75 = 8 s. The first has sent 2 bytes by then, gets 1/4 still, and
    ends at 8 + 4 / 0.25 = 24 s; if shares are stretched, at 12 s.
    """
    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
            for k in range(2)]

    def rule(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.share[c] = 0.25 + 0.5 * coflows[c].job

    network = netsim.big_switch(2, 1.0)
    plain = netsim.compiled(gives="shares")(rule)
    np.testing.assert_allclose(finishes(jobs, network, allocator=plain), [24, 8])
    stretched = netsim.compiled(gives="shares", stretch="all")(rule)
    np.testing.assert_allclose(finishes(jobs, network, allocator=stretched), [12, 8])


def test_weights():
    """Weights 1 and 3 on one link: 6 bytes end at 6 / 0.75 = 8 s, the other 6 at 12 s."""
    @netsim.compiled(gives="weights", information="agnostic")
    def heavy(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.weight[c] = 1.0 + 2.0 * coflows[c].job

    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
            for k in range(2)]
    np.testing.assert_allclose(finishes(jobs, netsim.big_switch(2, 1.0), allocator=heavy), [12, 8])


@pytest.mark.parametrize("leftover", ["none", "maxmin"])
def test_wake_at_and_limit(leftover):
    """Who is first changes each second: two jobs of 2 bytes end at 3 and 4 s.

    With a limit of 0.5 bytes on all, the rule is asked again when the first has sent so many.
    """
    @netsim.compiled(information="agnostic", leftover=leftover, options={"period": 1.0})
    def in_turn(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = (coflows[c].job + np.rint(now / order.options[0])) % 2
        order.wake_at[0] = now + order.options[0]

    @netsim.compiled(information="agnostic", leftover=leftover)
    def half_first(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = coflows[c].sent >= 0.5
            order.limit[c] = 0.5 if coflows[c].sent < 0.5 else np.inf

    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 2.0)])])
            for k in range(2)]
    network = netsim.big_switch(2, 1.0)
    np.testing.assert_allclose(finishes(jobs, network, allocator=in_turn), [3, 4])
    np.testing.assert_allclose(finishes(jobs, network, allocator=half_first), [2.5, 4])
    np.testing.assert_allclose(
        finishes(jobs, network, allocator=in_turn(period=3.0)), [2, 4])


def test_queues():
    """A queue of a third, one of two thirds of 1 byte/s: 2 bytes end at 3 s, 4 more at 6 s."""
    @netsim.compiled(gives="queues", information="agnostic", leftover="maxmin", queues=2)
    def by_job(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.queue[c] = coflows[c].job
        order.part[0], order.part[1] = 1 / 3, 2 / 3

    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, nbytes)])])
            for k, nbytes in enumerate((2.0, 4.0))]
    np.testing.assert_allclose(finishes(jobs, netsim.big_switch(2, 1.0), allocator=by_job), [6, 6])


def test_options_are_fields_of_the_policy():
    @netsim.compiled(options={"weight": 2.0})
    def widest(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = -order.options[0] * coflows[c].width

    assert widest() == widest(weight=2.0) != widest(weight=3.0)
    assert widest(weight=3.0).compiled_rule.options == {"weight": 3.0}
    with pytest.raises(UnknownNameError, match="mass"):
        widest().compiled_rule.with_options(mass=1.0)
    with pytest.raises(InputError, match="weight of rule widest must be a number"):
        widest(weight="2")


@numba.njit
def squared(coflow):
    return coflow.total ** 2


def test_columns_are_found_in_what_a_rule_calls():
    @netsim.compiled
    def smallest(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = squared(coflows[c])

    assert smallest().compiled_rule.reads == {"total"}
    np.testing.assert_array_equal(finishes(allocator=smallest),
                                  finishes(allocator="lcf:work_conservation=none"))


@pytest.mark.parametrize("key", [
    "sum([coflows[c].remaining for k in range(1)])", "coflows[c]['remaining']",
    "helpers.remaining(coflows[c])"])
def test_columns_are_found_however_they_are_named(key):
    helpers = types.ModuleType("helpers")
    exec("import numba\n@numba.njit\ndef remaining(coflow):\n    return coflow.remaining",
         vars(helpers))
    rule = of(f"for c in range(len(coflows)): order.key[c] = {key}", helpers=helpers)
    assert rule().compiled_rule.reads >= {"remaining"}
    np.testing.assert_array_equal(
        finishes(allocator=rule),
        finishes(allocator=of("for c in range(len(coflows)): order.key[c] = coflows[c].remaining")))


def test_options_are_the_same_at_each_decision():
    counts = of("order.options[0] += 1; order.note[0] = order.options[0]",
                options={"count": 1.0}, notes={"count": int})
    found = netsim.simulate(netsim.big_switch(8, 1.0), chains(5), allocator=counts,
                            record=["decisions"]).decisions
    assert set(found["count"]) == {2}


def test_in_python_a_limit_is_an_instant():
    """Of two coflows of 2 bytes the first has sent 0.5 at 0.5 s."""
    rule = of("order.limit[:] = 0.5")
    view = make_view(netsim.big_switch(2, 1.0), [[(0, 1, 2.0)], [(0, 1, 2.0)]])
    assert rule().allocate(view).revisit_at == pytest.approx(0.5)


def test_who_inherits_may_ask_the_rule():
    class Twice(least_attained):
        def allocate(self, view):
            return super().allocate(view)

    assert Twice().compiled_rule is None
    np.testing.assert_array_equal(finishes(allocator=Twice), finishes(allocator=least_attained))


# --- bad rules -----------------------------------------------------------------------------


def of(body, helpers=None, **options):
    """Return a policy of a rule with one line, compiled."""
    names = {"helpers": helpers}
    exec(f"import numpy as np\ndef rule(coflows, jobs, now, order):\n    {body}\n", names)
    made = netsim.compiled(**options)(names["rule"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there is nowhere to keep it
        assert compiled_rule(made().compiled_rule)
    return made


#: What makes a rule, and two versions of it that differ in what they compute.
PAIRS = {
    "a name": ("def rule(a, b, c, order): order.{}[0] = 1.0", "key", "tie"),
    "the order of constants": (
        "def rule(a, b, now, order): order.key[0] = now * {} + {}", (3.0, 2.0), (2.0, 3.0)),
    "nested code": ("def rule(a, b, c, order): order.key[0] = max({} for c in (1, 2))", "c", "-c"),
    "what it encloses": ("""
def make(one, two):
    def rule(a, b, c, order): order.key[0] = one - two
    return rule
rule = make({}, {})""", (1.0, 2.0), (2.0, 1.0)),
    "which functions it encloses": ("""
def plus(x): return x + 1
def times(x): return x * 2
def make(f):
    f = numba.njit(f)
    def rule(a, b, now, order): order.key[0] = f(now)
    return rule
rule = make({})""", "plus", "times"),
    "bodies of callees": ("""
@numba.njit
def f(x): return {}
@numba.njit
def g(x): return {}
def rule(a, b, now, order): order.key[0] = f(now) - 2 * g(now)""",
                          ("x + 1", "x * 3"), ("x * 3", "x + 1")),
    "what a callee calls": ("""
@numba.njit
def f(x): return {}
@numba.njit
def g(x): return f(x)
def rule(a, b, now, order): order.key[0] = g(now)""", "x + 1", "x * 3"),
    "defaults": ("""
@numba.njit
def f(x, y={}): return x * y
def rule(a, b, now, order): order.key[0] = f(now)""", 1.0, 2.0),
    "names of arguments": ("""
@numba.njit
def f({}, {}): return {} - {}
def rule(a, b, now, order): order.key[0] = f(x=now, y=1.0)""", (*"xyxy",), (*"yxyx",)),
    "an array": ("""
values = np.array([1.0, {}])
def rule(a, b, now, order): order.key[0] = values[1]""", 2.0, 3.0),
    "the type of an array": ("""
values = np.zeros(2, np.{})
def rule(a, b, now, order): order.key[0] = values[1]""", "float64", "int64"),
    "what a name stands for": ("""
from math import {} as r
def rule(a, b, now, order): order.key[0] = r(now)""", "floor", "ceil"),
    "a module": ("""
import {} as module
def rule(a, b, now, order): order.key[0] = module.sqrt(now)""", "math", "cmath"),
    "an enum": ("""
import enum
class Kind(enum.{}Enum): ONE = {}
def rule(a, b, now, order): order.key[0] = now * Kind.ONE.value""", ("Int", 1), ("Int", 2)),
    "a member of an enum": ("""
import enum
class Kind(enum.IntEnum): ONE, TWO = 1, 2
kind = Kind.{}
def rule(a, b, now, order): order.key[0] = now * kind""", "ONE", "TWO"),
    "a class": ("""
class Held: value = {}
def rule(a, b, now, order): order.key[0] = Held.value""", 1.0, 2.0),
    "fields of a tuple": ("""
from typing import NamedTuple
class Pair(NamedTuple):
    {}: float
    {}: float
def rule(a, b, now, order): order.key[0] = Pair(now, 1.0).x""", (*"xy",), (*"yx",)),
    "defaults of a tuple": ("""
from typing import NamedTuple
class Pair(NamedTuple):
    x: float
    y: float = {}
def rule(a, b, now, order): order.key[0] = Pair(now).y""", 1.0, 2.0),
    "a constant of a module": ("""
import types
outer = types.ModuleType("outer")
outer.inner = types.ModuleType("outer.inner")
outer.inner.SIGN = {}
def rule(a, b, now, order): order.key[0] = outer.inner.SIGN""", -1, 1),
    "a function of a module": ("""
import types
outer = types.ModuleType("outer")
outer.f = numba.njit(lambda x: {})
def rule(a, b, now, order): order.key[0] = outer.f(now)""", "x + 1", "x * 2"),
    "options of Numba": ("""
@numba.njit(error_model={!r})
def f(x): return 1.0 / x
def rule(a, b, now, order): order.key[0] = f(now)""", "python", "numpy"),
    "the type of a number": ("""
one = np.float{}(1.0)
def rule(a, b, now, order): order.key[0] = one / 3""", "64", "32"),
    "handlers": ("""
def rule(a, b, now, order):
    try:
        order.key[0] = {}
    except Exception:
        {}""", ("1.0", "order.key[0] = 2.0"), ("1.0", "order.key[1] = 2.0")),
}


def rule_from(code, values=()):
    names = {"np": np, "numba": numba, "__name__": "mine"}
    exec(code.format(*values if isinstance(values, tuple) else [values]), names)
    return names["rule"]


@pytest.mark.parametrize(("code", "one", "two"), PAIRS.values(), ids=PAIRS)
def test_compiled_code_is_that_of_the_rule(code, one, two):
    """Rules that differ have different keys, and one that is made again has the same."""
    first, again, other = (key_of(rule_from(code, values)) for values in (one, one, two))
    assert first == again != other
    assert None not in (first, other)


@pytest.mark.parametrize("code", [
    "values = [1.0]", "values = np.array([None])", "def values(): pass",
    "values = numba.vectorize(lambda x: x)", "values = numba.typed.List([1.0])"])
def test_who_takes_what_may_change_unnoticed_has_no_key(code):
    """Numba has a plain function replaced by what is elsewhere, if it compiles it at all."""
    use = "\ndef rule(a, b, now, order): order.key[0] = now * values"
    assert key_of(rule_from(code + use)) is None


KEY = """
import enum, numba
from netsim.fabric.rule_code import key_of
class Kind(enum.Enum): ONE, TWO = "one", "two"
@numba.njit(fastmath={"nnan", "ninf", "arcp", "nsz"})
def f(x): return x
def rule(a, b, now, order):
    order.key[0] = f(now) if "a" in {"b", "c", Kind.ONE.value} or "a" in {"b", "c"} else 0.0
print(key_of(rule))
"""


def test_a_key_is_the_same_in_all_processes():
    found = {subprocess.run([sys.executable, "-c", KEY], text=True, capture_output=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in "123"}
    assert len(found) == 1
    assert found != {"None\n"}


def test_who_has_no_key_is_compiled_anew():
    doubled = numba.vectorize(lambda x: 2 * x)

    @netsim.compiled
    def smallest(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = doubled(coflows[c].total)

    assert key_of(smallest().compiled_rule.function) is None
    np.testing.assert_array_equal(finishes(allocator=smallest),
                                  finishes(allocator="lcf:work_conservation=none"))
    assert not [*cache_folder().glob("*/rule_code.rule-None*")]


def test_a_rule_that_calls_itself_has_a_key():
    code = """
@numba.njit
def f(x): return x if x < {} else f(x - 1)
def rule(a, b, now, order): order.key[0] = f(now)"""
    first, other = (key_of(rule_from(code, least)) for least in (1, 2))
    assert None not in (first, other)
    assert first != other


@pytest.mark.parametrize(("body", "said"), [
    ("order.key[0] = np.nan", r"written nan as key\[0\]; it must be a number"),
    ("order.tie[0] = np.nan", r"written nan as tie\[0\]"),
    ("order.share[0] = -1.0", r"written -1.0 as share\[0\]; it must be finite and not negative"),
    ("order.share[0] = 1.5", "overloads link"),
    ("order.most[0] = 2.0", r"written 2.0 as most\[0\]; it must be from 0 to 1"),
    ("order.wake_at[0] = now", "asks to be woken at 0.0 s, which is not after now"),
    ("order.wake_at[0] = np.nan", "asks to be woken at nan s, which is not after now"),
    ("order.key[len(coflows)] = 1.0", "reads or writes beyond its arrays"),
    ("order.queue[0] = 1", r"written 1 as queue\[0\]"),
    ("order.part[0] = np.nan", r"written nan as part\[0\]; parts are from 0 to 1"),
])
def test_rules_that_write_what_cannot_be(body, said):
    job = netsim.JobSpec(0, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
    with pytest.raises(AllocationError, match=f"allocator rule at t = 0 s.*{said}"):
        finishes([job], allocator=of(body))


@pytest.mark.parametrize("leftover", ["none", "maxmin"])
@pytest.mark.parametrize("body", ["order.key[0] = np.nan if now > 3 else 0.0",
                                  "order.key[len(coflows) if now > 3 else 0] = 0.0"])
def test_errors_say_when_the_loop_asked(body, leftover):
    """A chain of coflows of 2 s: the decisions are at 0, 2 and 4 s."""
    job = netsim.JobSpec(0, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 2.0)])], iterations=5)
    with pytest.raises(AllocationError, match="at t = 4 s"):
        netsim.simulate(netsim.big_switch(2, 1.0), [job], allocator=of(body, leftover=leftover))


@pytest.mark.parametrize(("body", "said"), [
    ("order.key[0] = coflows[0].gama",
     r"no column 'gama' \(<string>, line 3\); choose from: of coflows job"),
    ("order.key[0] = coflows[0].attained",
     r"'attained' \(<string>, line 3\) is a column of jobs, and .* have job, id"),
    ("order.key[0] = 'a'", r"rule rule cannot be compiled: .* \(<string>, line 3\)$"),
    ("order.key[0] = nothing", r"rule rule cannot be compiled: .*'nothing' is not.*line 3\)$"),
    ("return 1", "must return nothing"),
])
def test_rules_that_cannot_be_compiled(body, said):
    with pytest.raises(InputError, match=said):
        of(body)


@pytest.mark.parametrize(("body", "where"), [
    ("coflows[0].sent = 0.0", "'sent' .<string>, line 3"),
    ("jobs[coflows[0].job].attained += 1.0", "'attained' .<string>, line 3"),
    ("coflows[0]['sent'] += 1.0", "'sent' .<string>, line 3"),
    ("helpers.forget(coflows[0])", "'total' .<string>, line 4"),
    ("coflows.sent[:] = 0.0", "columns of coflows or jobs"),
    ("coflows['sent'][0] = 0.0", "columns of coflows or jobs"),
    ("coflows[0] = coflows[1]", "columns of coflows or jobs")])
def test_rules_that_write_what_they_read(body, where):
    helpers = types.ModuleType("helpers")
    exec("import numba\n@numba.njit\ndef forget(coflow):\n    coflow.total = 0.0", vars(helpers))
    with pytest.raises(InputError, match=rf"rule rule .*writes .*{where}.*which it may only read"):
        of(body, helpers)


def test_rules_that_are_none():
    with pytest.raises(InputError, match=r"must take 4 arguments, \(coflows, jobs, now, order\)"):
        @netsim.compiled
        def three(coflows, jobs, order):
            pass
    with pytest.raises(InputError, match="decorates a function"):
        netsim.compiled(3)
    with pytest.raises(InputError, match=r"reads 'gamma' \(.*test_rules.py, line \d+\)"):
        @netsim.compiled(information="agnostic")
        def knows(coflows, jobs, now, order):
            order.key[0] = coflows[0].gamma
    with pytest.raises(UnknownNameError, match="unknown gives 'orders'"):
        netsim.compiled(gives="orders")(lambda coflows, jobs, now, order: None)
    with pytest.raises(InputError, match="stretch goes with leftover='none'"):
        netsim.compiled(stretch="all", leftover="maxmin")(lambda coflows, jobs, now, order: None)
    with pytest.raises(UnknownNameError, match="unknown wakes_on 'sometimes'"):
        netsim.compiled(wakes_on="sometimes")(lambda coflows, jobs, now, order: None)


@pytest.mark.parametrize(("options", "body", "said"), [
    ({"gives": "weights"}, "order.limit[0] = 1.0", "written limit, which goes with an order"),
    ({"leftover": "maxmin"}, "order.share[0] = 0.1", "written share or most, which goes with"),
])
def test_rules_that_write_what_is_not_heeded(options, body, said):
    with pytest.raises(AllocationError, match=said):
        finishes(allocator=of(body, **options))


@pytest.mark.parametrize(("options", "said"), [
    ({"information": "x"}, "unknown information 'x'"), ({"queues": 2.5}, "queues must be a whole"),
    ({"notes": {"x": str}}, "note x must be float or int"), ({"reads": "gamma"}, "must be a list"),
    ({"options": {"information": 1.0}}, "no attribute of allocators"),
    ({"options": {"a b": 1.0}}, "cannot have an option 'a b'"),
])
def test_arguments_that_make_no_rule(options, said):
    with pytest.raises(InputError, match=said):
        netsim.compiled(**options)(lambda coflows, jobs, now, order: None)


def test_events_may_be_named_as_in_python():
    rule = netsim.compiled(wakes_on=netsim.Event.COFLOW)(lambda coflows, jobs, now, order: None)
    assert rule.wakes_on == netsim.Event.COFLOW


def test_columns_that_are_not_read_are_not_there():
    @netsim.compiled(reads=["job"])
    def blind(coflows, jobs, now, order):
        order.key[0] = coflows[0].gamma

    with pytest.raises(AllocationError, match="written nan as key"):
        finishes(allocator=blind)


@pytest.mark.parametrize("order", [[0, 0], [0], [1, 2], "ab"])
def test_orders_that_are_none(order):
    class Bad(netsim.Allocator):
        def allocate(self, view):
            return netsim.Allocation(order=order)

    jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
            for k in range(2)]
    with pytest.raises(AllocationError, match="order"):
        finishes(jobs, allocator=Bad)


def test_an_order_that_is_none_later_on():
    """Two chains of coflows of 2 s, on links of their own: the decisions are at 0, 2 and 4 s."""
    class Bad(netsim.Allocator):
        wakes_on = "coflow"

        def allocate(self, view):
            return netsim.Allocation(order=[0, 0] if view.now > 3 else [0, 1])

    jobs = [netsim.JobSpec(k, hosts=[2 * k, 2 * k + 1], iterations=5,
                           stages=[netsim.Stage("a", [(0, 1, 2.0)])]) for k in range(2)]
    with pytest.raises(AllocationError, match=r"at t = 4 s returned \[0, 0\]; an order must name"):
        finishes(jobs, netsim.big_switch(4, 1.0), allocator=Bad)


def test_leftover_goes_with_an_order():
    with pytest.raises(AllocationError, match="goes with an order only"):
        netsim.Allocation(rates=[1.0], leftover="maxmin")
    with pytest.raises(UnknownNameError, match="unknown leftover"):
        netsim.Allocation(order=[0], leftover="all")


SCRIPT = """
import netsim
@netsim.compiled(information="agnostic")
def last(coflows, jobs, now, order):
    for c in range(len(coflows)):
        order.key[c] = -c
jobs = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
        for k in range(2)]
print(netsim.simulate(netsim.big_switch(2, 1.0), jobs, allocator=last).jobs["finish_s"].tolist())
"""


@pytest.mark.parametrize("way", but(["file", "stdin", "exec"], "file"))
def test_rules_from_anywhere(tmp_path, way):
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT if way != "exec" else f"exec({SCRIPT!r})")
    command = [sys.executable, "-"] if way == "stdin" else [sys.executable, str(path)]
    for _ in range(2):
        done = subprocess.run(command, input=SCRIPT if way == "stdin" else None, text=True,
                              capture_output=True, check=True, cwd=tmp_path)
        assert done.stdout == "[12.0, 6.0]\n"
    assert done.stderr == ""  # it does not compile again, wherever the rule stands


def test_a_rule_is_compiled_again_when_a_function_or_constant_of_another_file_changes(tmp_path):
    """Job 1 is first with the sign -1, and job 0 with +1, wherever the sign stands."""
    (tmp_path / "mine.py").write_text("from helpers import signed\n" + SCRIPT.replace(
        "= -c", "= signed(c)"))
    for helper, shown in (("SIGN = -1\n", "[12.0, 6.0]\n"), ("SIGN = +1\n", "[6.0, 12.0]\n")):
        (tmp_path / "helpers.py").write_text(
            f"import numba\n{helper}@numba.njit\ndef signed(c):\n    return SIGN * c\n")
        for _ in range(2):
            done = subprocess.run([sys.executable, "mine.py"], text=True, capture_output=True,
                                  check=True, cwd=tmp_path, env=os.environ | {
                                      "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""})
            assert done.stdout == shown
