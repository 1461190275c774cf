"""`check_allocator` on every allocator with every option, and on broken ones that it must catch."""

import math
import random
from typing import NamedTuple

import numpy as np
import pytest

import netsim
from netsim import Allocation, Allocator
from netsim.allocators import make_allocator
from netsim.errors import InputError
from netsim.network import Topology
from netsim.testing import check_allocator, make_view
from tests.examples import examples
from tests.pairs import few


def choices(name, option):
    """The values of an option, from the error that lists them; none if it is a quantity."""
    with pytest.raises(netsim.InputError) as error:
        make_allocator({"name": name, option: "?"})
    return getattr(error.value, "choices", [])


#: Values of an option that need options of their own.
WITH_OPTIONS = {"table": {"name": "table", "values": [1, 1.6, 3.5]}}


def variants(name):
    """An allocator with every value of every option that is a choice: its default is a word."""
    options = [option for option, default in netsim.ALLOCATORS.options(name).items()
               if isinstance(default, str)]
    values = [(option, value) for option in options for value in choices(name, option)]
    yield from ({"name": name, option: WITH_OPTIONS.get(value, value)} for option, value in values)
    if not values:
        yield {"name": name}


ALLOCATORS = [*(policy for name in netsim.ALLOCATORS for policy in variants(name)),
              {"name": "parrot", "theta_max": 0.5, "work_conservation": "none"},
              {"name": "aalo", "observe": 0.5},
              {"name": "srpt", "predictor": "perfect"}]


def text(options):
    return "-".join(str(value) for value in options.values())


@pytest.mark.parametrize("policy", few(ALLOCATORS, 74), ids=text)
def test_keeps_its_promises(policy):
    check_allocator(policy, examples=examples(30))


def test_every_choice_is_covered():
    """What the papers name is among what is checked."""
    named = {text(policy) for policy in ALLOCATORS}
    for work in ("none", "uniform", "backfill", "per_flow"):
        assert f"parrot-{work}" in named
    for work in ("none", "greedy", "shared_uniform", "capped", "maxmin"):
        assert {f"aalo-lbsf-{work}", f"lccf-{work}", f"srpt-{work}"} <= named
    assert {"maxmin-flow", "maxmin-coflow"} <= named


#: The name of a column, as a rule may hold it.
AHEAD = "ahead_s"


class Line(Topology):
    """Hosts in a row, a link each way between neighbours: paths of up to three links."""

    def __init__(self, hosts=4):
        names = [f"{a}-{a + 1}" for a in range(hosts - 1)] + [f"{a + 1}-{a}"
                                                              for a in range(hosts - 1)]
        super().__init__("line", hosts, [1e6 * (1 + link) for link in range(len(names))], names)

    def routes(self, src, dst, key):
        paths = [range(s, d) if s < d else range(s + self.hosts - 2, d + self.hosts - 2, -1)
                 for s, d in zip(src, dst, strict=True)]
        ptr = np.concatenate(([0], np.cumsum([len(path) for path in paths])))
        return ptr.astype(np.int64), np.array([link for path in paths for link in path], np.int64)


@pytest.mark.parametrize("policy", few(ALLOCATORS, 37), ids=text)
def test_keeps_its_promises_on_other_topologies(policy):
    check_allocator(policy, networks=[Line(), netsim.big_switch(3, "1Gbps")], examples=examples(10))


# --- broken allocators, one for each promise ----------------------------------------------------


def fair(view):
    return view.maxmin()


class Broken(Allocator):
    """Answers as a function of the view says."""

    def __init__(self, answer):
        self.answer = answer

    def allocate(self, view):
        return self.answer(view)


class Blind(Broken):
    information = "agnostic"


class Boasting(Broken):
    work_conserving = True


def peek_at_sizes(view):
    return Allocation(view.maxmin(view._table.flows["remaining"][view._open[0]]))


def peek_ahead(view):
    ahead = view._table.jobs["ahead"][view.job] + 1
    return Allocation(view.maxmin(ahead[view.coflow]))


def unlock(view):
    remaining = view.flow_remaining
    remaining.flags.writeable = True
    remaining /= 2
    return Allocation(fair(view))


def write_to_rows(view):
    view._table.coflows["weight"] = 7
    return Allocation(fair(view))


def favour_gigabytes(view):
    return Allocation(fair(view) / (1 + (view.total < 100_000))[view.coflow])


def favour_seconds(view):
    return Allocation(fair(view) / (1 + (view.gamma < 1))[view.coflow])


def serve_nobody(view):
    return Allocation(np.zeros(view.flows))


def serve_nobody_beside_another(view):
    return Allocation(fair(view) * (len(view) < 2))


def serve_the_first(view):
    """Even if it needs a dead link."""
    return Allocation(shares=(np.arange(len(view)) == 0) * 1.0)


def wait_a_second(view):
    return Allocation(np.zeros(view.flows), revisit_at=view.now + 1.0)


def one_slow_flow(view):
    rates = fair(view)
    rates[-1] *= 0.999
    return Allocation(rates)


BROKEN = [
    (Broken(lambda view: fair(view)), "returned ndarray, not an Allocation"),
    (Broken(lambda view: Allocation(fair(view) * math.nan)), "returned the rates .*nan"),
    (Broken(lambda view: Allocation(weights=np.full(view.flows, math.inf))), "the weights .*inf"),
    (Broken(lambda view: Allocation(-fair(view))), "returned the rates .*-"),
    (Broken(lambda view: Allocation(np.ones(view.flows + 1))), r"rates of shape \(2,\), not \(1,"),
    (Broken(lambda view: Allocation(shares=np.ones((1, len(view))))), r"shares of shape \(1, 1\)"),
    (Broken(lambda view: Allocation(fair(view), revisit_at=view.now)), "asks to be woken at"),
    (Broken(lambda view: Allocation(fair(view) * 1.001)), "is not feasible: it puts .* on link '"),
    (Broken(lambda view: Allocation(shares=np.ones(len(view)))), "is not feasible"),
    (Broken(unlock), "changes the view: flow_remaining changed"),
    (Broken(write_to_rows), "changes the view: table.coflows changed"),
    (Broken(lambda view: Allocation(fair(view) * random.random())), "is not deterministic"),
    (Broken(lambda view: Allocation(fair(view) / (1 + view.src))), "the numbers of hosts"),
    (Broken(lambda view: Allocation(view.maxmin(1.0 + np.arange(view.flows)))),
     "depends on the order in which a coflow lists its flows"),
    (Broken(lambda view: Allocation(fair(view) / (1 + view.job % 2)[view.coflow])),
     "depends on the numbers of jobs"),
    (Broken(lambda view: Allocation(np.minimum(fair(view), 300_000))), "on the unit of time"),
    (Broken(lambda view: Allocation(fair(view) / (1 + (view.gamma > 1))[view.coflow])),
     r"on the unit of time \(declare time_free = False if that is intended\): .* 1.52588e-05 times "
     "as "),
    (Broken(favour_seconds), "on the unit of time"),
    (Broken(serve_nobody), "no coflow moves though coflow 0 could"),
    (Broken(serve_nobody_beside_another), "no coflow moves though coflow 0 could"),
    (Broken(serve_the_first), "no coflow moves though coflow 1 could"),
    (Broken(favour_gigabytes), r"on the unit of bytes \(declare scale_free = False"),
    (Blind(peek_at_sizes), "depends on bytes not sent yet"),
    (Blind(lambda view: Allocation(shares=np.full(len(view), 1 / len(view)))),
     "shares or MADD, which use sizes"),
    (Broken(peek_ahead), "depends on coflows not emitted yet"),
    (Boasting(one_slow_flow), "is not work-conserving, as it claims: flow 0 of coflow 0 could be"),
    (Boasting(lambda view: Allocation(shares=view.greedy(np.arange(len(view))))),
     "is not work-conserving, as it claims: flow"),
]


@pytest.mark.parametrize(("policy", "message"), BROKEN)
def test_a_broken_promise_is_caught(policy, message):
    """It names the class and the promise, and prints the view as the call that makes it."""
    with pytest.raises(AssertionError, match=message) as error:
        check_allocator(policy)
    assert f"allocator {type(policy).__module__}:{type(policy).__name__} " in str(error.value)
    assert "on the view\nnetsim.testing.make_view(netsim.BigSwitch([" in str(error.value)


def test_the_counterexample_is_small():
    """What is wrong with a coflow of two flows is shown on one, with nothing else odd."""
    def answer(view):
        return Allocation(fair(view) * (2 if view.width.max() > 1 else 1))

    with pytest.raises(AssertionError, match="is not feasible") as error:
        check_allocator(Broken(answer))
    arguments = str(error.value).partition("make_view(")[2].splitlines()
    assert len(arguments) == 2
    assert arguments[1].count("(") == 2


def pasted(error):
    """Execute the printed call after ``import netsim`` alone; return the view."""
    scope = {}
    exec(f"import netsim\nview = {str(error).partition('on the view')[2].strip()}", scope)
    return scope["view"]


def test_the_counterexample_can_be_pasted():
    """The printed call makes a view on which the fault shows."""
    with pytest.raises(AssertionError) as error:
        check_allocator(Broken(lambda view: Allocation(fair(view) * (1 + (view.flows > 2)))))
    view = pasted(error.value)
    assert view.flows == 3


def test_a_deadline_can_be_pasted():
    """Only with a deadline beside none does the fault show."""
    def answer(view):
        due = np.isfinite(view.deadline_s)
        return Allocation(fair(view) * (1 + (due.any() and not due.all())))

    with pytest.raises(AssertionError) as error:
        check_allocator(Broken(answer))
    view = pasted(error.value)
    assert sorted(np.isinf(view.deadline_s)) == [False, True]


def test_an_exception_passes_through_with_the_view():
    def answer(view):
        view.remaining[0] = 0.0

    with pytest.raises(ValueError, match="read-only") as error:
        check_allocator(Broken(answer))
    assert error.value.__notes__[0].startswith(
        "on the view\nnetsim.testing.make_view(netsim.BigSwitch([")


def blind(leftover="none", stretch="none", limit=False):
    """A compiled agnostic rule: the job that has sent least first, perhaps with limits."""
    share = 0.0 if stretch == "none" else 0.01

    @netsim.compiled(information="agnostic", leftover=leftover, stretch=stretch)
    def least_attained(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = jobs[coflows[c].job].attained
            if limit:
                order.limit[c] = 2 * coflows[c].sent + 1000
            order.share[c] = share

    return least_attained


@pytest.mark.parametrize("leftover", ["none", "maxmin", "greedy"])
def test_a_blind_policy_may_give_an_order(leftover):
    """As in a run, whatever follows from the order, which the fabric serves."""
    class LeastAttained(Allocator):
        information = "agnostic"
        order_free = leftover != "greedy"

        def allocate(self, view):
            return Allocation(order=np.lexsort((view.job, view.job_attained)), leftover=leftover)

    check_allocator(LeastAttained, examples=examples(30))
    promises = {*netsim.testing.promises_of(check_allocator)} - {"flow-order", "unit-of-bytes"}
    check_allocator(blind(leftover), examples=examples(30), promises=promises)
    check_allocator(blind(leftover, limit=True), examples=examples(30), promises=promises)


@pytest.mark.parametrize("stretch", ["all", "others"])
def test_a_blind_rule_may_stretch_an_order(stretch):
    check_allocator(blind(stretch=stretch), examples=examples(30),
                    promises=["well-formed", "unsent-bytes"])


def test_an_order_of_a_blind_policy_that_follows_sizes_is_caught():
    with pytest.raises(AssertionError, match="depends on bytes not sent yet"):
        check_allocator(Blind(lambda view: Allocation(
            order=np.argsort(-view._table.coflows["total"], kind="stable"), leftover="maxmin")))


@pytest.mark.parametrize(("gives", "what"), [("shares", "LP rates"), ("flows", "bytes left")])
def test_a_blind_rule_gives_nothing_that_follows_from_sizes(gives, what):
    with pytest.raises(InputError, match=f"reads {what} .*'agnostic'"):
        netsim.compiled(gives=gives, information="agnostic")(lambda coflows, jobs, now, order: None)


JOBS = [netsim.JobSpec(k, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 6.0)])])
        for k in range(2)]


@pytest.mark.parametrize("run", [
    check_allocator,
    lambda policy: netsim.simulate(netsim.big_switch(2, 1.0), JOBS, allocator=policy)])
def test_reading_a_hidden_column_is_refused_at_once(run):
    """Not NaN, which sorts as any number does: in runs and in checks, of every kind of policy."""
    class Shortest(Allocator):
        information = "agnostic"

        def allocate(self, view):
            return Allocation(order=np.argsort(view.remaining, kind="stable"))

    class Ahead(Allocator):
        def allocate(self, view):
            return Allocation(order=np.argsort(view.job_ahead_s, kind="stable"))

    @netsim.compiled(information="agnostic", reads=["sent"])
    def shortest(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = coflows[c].remaining

    @netsim.compiled(reads=["sent"])
    def least_ahead(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = jobs[coflows[c].job][AHEAD]

    for policy, column, declared, needs in (
            (Shortest, "view.remaining", "agnostic", "clairvoyant"),
            (Ahead, "view.job_ahead_s", "clairvoyant", "job-clairvoyant"),
            (shortest, r"'remaining' \(.*test_allocators.py, line \d+\)", "agnostic",
             "clairvoyant"),
            (least_ahead, r"'ahead_s' \(.*test_allocators.py, line \d+\)", "clairvoyant",
             "job-clairvoyant")):
        with pytest.raises(InputError, match=f"reads {column}, but declares information="
                                             f"'{declared}'.*, declare information='{needs}'"):
            run(policy)


class Sizes(NamedTuple):
    gamma: float = 2.0


SIZES = Sizes()


def test_what_merely_has_the_name_of_a_hidden_column():
    @netsim.compiled(information="agnostic", reads=["sent"])
    def by_gamma_function(coflows, jobs, now, order):
        for c in range(len(coflows)):
            order.key[c] = -math.gamma(SIZES.gamma + coflows[c].job)

    done = netsim.simulate(netsim.big_switch(2, 1.0), JOBS, allocator=by_gamma_function)
    assert done.jobs["finish_s"].tolist() == [12, 6]


def test_a_stateful_policy_is_asked_afresh():
    class Counting(Allocator):
        calls = 0

        def allocate(self, view):
            self.calls += 1
            return Allocation(fair(view) / self.calls)

    check_allocator(Counting, examples=examples(20))
    check_allocator(Counting(), examples=examples(20))


def test_what_depends_by_design_may_be_declared():
    class Thresholds(Broken):
        scale_free = False

    class Timed(Broken):
        time_free = False

    class Listed(Broken):
        order_free = False

    class Waiting(Broken):
        stall_free = False

    for policy in (Thresholds(favour_gigabytes), Timed(favour_seconds), Waiting(serve_nobody),
                   Listed(lambda view: Allocation(view.maxmin(1.0 + np.arange(view.flows))))):
        check_allocator(policy, examples=examples(100))


def test_who_waits_may_ask_to_be_woken():
    check_allocator(Broken(wait_a_second), examples=examples(100))


def test_what_cannot_move_need_not():
    """In step, the only coflow sends nothing while one of its flows needs a dead link."""
    def answer(view):
        return Allocation(shares=view.greedy(np.arange(len(view))))

    view = make_view(netsim.big_switch(3, 1.0), [[(0, 1, 1.0), (0, 2, 1.0)]],
                     capacity={"ingress-1": 0})
    assert view.rates(answer(view)).tolist() == [0, 0]
    check_allocator(Broken(answer), examples=examples(100))


def test_a_network_on_which_nothing_can_flow():
    with pytest.raises(netsim.InputError, match="one host: no flow crosses a link"):
        check_allocator("maxmin", networks=[netsim.big_switch(1)])
