"""The fabric on cases small enough for a pencil. Ports carry 1 MB/s unless said otherwise."""

import math

import numpy as np
import pytest

import netsim
from netsim import Allocation, Allocator, Event, JobSpec, Stage, Workload
from netsim.errors import AllocationError, InputError, StalledError, UnknownNameError
from netsim.simulation.run_spec import RunSpec
from netsim.simulation.targets import make_run
from tests.pairs import some

MB = 1e6
NET = netsim.big_switch(4, MB)


def chain(job, *coflows, arrival=0.0, **options):
    """A job whose coflows, lists of (src, dst, MB), follow one another."""
    stages = [Stage(f"c{k}", [(s, d, mb * MB) for s, d, mb in flows],
                    after=(f"c{k - 1}",) if k else ()) for k, flows in enumerate(coflows)]
    return JobSpec(job, arrival, stages=stages, hosts=range(4), **options)


def finish(*jobs, net=NET, **options):
    result = netsim.simulate(net, Workload(jobs), **options)
    return result.jobs.sort_values("job")["finish_s"].tolist()


def test_an_answer_that_contradicts_itself_is_refused_by_allocator_and_time():
    class Both(Allocator):
        def allocate(self, view):
            if view.now < 2:
                return Allocation(order=[0])
            return Allocation(order=[0], shares=[1.0])

    with pytest.raises(AllocationError, match=r"^allocator Both at t = 2.5 s cannot answer: an "
                                              r"Allocation takes one of rates, shares"):
        finish(chain(0, [(0, 1, 2)], [(1, 2, 1)], arrival=0.5), allocator=Both)


def test_one_flow_takes_bytes_over_capacity():
    assert finish(chain(0, [(0, 1, 3)], arrival=0.5)) == [3.5]


@pytest.mark.parametrize("allocator", ["maxmin", "parrot"])
def test_a_flow_too_short_for_the_clock(allocator):
    """1e-6 bytes at a time when the clock's resolution is 1e-10 s: done, and no time passes."""
    assert finish(chain(0, [(0, 1, 1e-12)], [(0, 1, 1)], arrival=1e6), allocator=allocator
                  ) == [1e6 + 1]


@pytest.mark.parametrize("allocator", ["maxmin", "parrot",
                                       {"name": "parrot", "work_conservation": "per_flow"}])
def test_a_flow_beyond_the_range_of_floats_has_no_bytes(allocator):
    assert finish(chain(0, [(0, 1, 5e-324 / MB), (1, 2, 1e-310), (2, 3, 1)]), allocator=allocator
                  ) == [1]


def test_a_flow_is_limited_by_the_slower_port():
    """Egress 2 MB/s into ingress 0.5 MB/s: 3 MB take 6 s."""
    net = netsim.big_switch(4, egress=2 * MB, ingress=MB / 2)
    assert finish(chain(0, [(0, 1, 3)]), net=net) == [6]


def test_iterations_follow_one_another():
    assert finish(chain(0, [(0, 1, 1)], [(1, 0, 2)], iterations=3)) == [9]


def test_compute_comes_before_each_iteration():
    """(0.5 s of computation + 1 s) twice."""
    assert finish(chain(0, [(0, 1, 1)], iterations=2, compute_s=0.5)) == [3]


def test_zero_bytes_free_loopback_and_parallel_flows():
    """An empty coflow and a flow of 0 bytes take no time; neither does 0 -> 0 off the ports.

    The last coflow has two flows on one port pair: 1 + 2 MB over one port take 3 s.
    """
    job = chain(0, [], [(0, 1, 0)], [(2, 2, 9)], [(0, 1, 1), (0, 1, 2)])
    for allocator in ("maxmin", "parrot", "aalo-lbsf", "lccf", "srpt"):
        result = netsim.simulate(NET, Workload([job]), allocator=allocator)
        assert result.jobs["finish_s"].tolist() == [3]
        assert result.coflows["cct_s"].tolist() == [0, 0, 0, 3]
        assert result.coflows["bytes"].tolist() == [0, 0, 0, 3 * MB]
        assert result.coflows["width"].tolist() == [0, 0, 0, 2]


def test_loopback_on_the_ports_where_the_network_says_so():
    net = netsim.big_switch(4, MB, loopback_uses_ports=True)
    assert finish(chain(0, [(2, 2, 9)]), net=net) == [9]


def test_simultaneous_arrivals_are_one_decision():
    """Three jobs at once and three completions at once: two instants, one decision."""
    jobs = [chain(job, [(job, 3, 1)]) for job in range(3)]
    result = netsim.simulate(NET, Workload(jobs), allocator="parrot")
    assert result.run["decisions"] < 4
    decisions = netsim.simulate(NET, Workload(jobs), record=["decisions"]).decisions
    assert decisions["time_s"].tolist() == [0]
    assert decisions["coflows"].tolist() == [3]


def test_many_jobs_at_one_instant():
    """100 equal jobs share one port max-min fairly: all end at 100 s."""
    assert finish(*(chain(job, [(0, 1, 1)]) for job in range(100))) == pytest.approx([100] * 100)


class TestObservation:
    """Decisions at multiples of 0.3 s."""

    def test_true_end_counts_but_is_noticed_later(self):
        """Valid at 0.5, noticed at 0.6; 1 MB ends at 1.6, noticed at 1.8; then 2 MB to 3.8."""
        job = chain(0, [(0, 1, 1)], [(1, 0, 2)], arrival=0.5)
        result = netsim.simulate(NET, Workload([job]), observe_interval=0.3)
        coflows = result.coflows
        assert coflows["valid_s"].tolist() == pytest.approx([0.5, 1.8])
        assert coflows["start_s"].tolist() == pytest.approx([0.6, 1.8])
        assert coflows["finish_s"].tolist() == pytest.approx([1.6, 3.8])
        assert result.jobs["jct_s"].tolist() == pytest.approx([3.3])

    def test_on_the_grid_is_noticed_at_once(self):
        """3 * 0.3 is 0.8999..., an event at 0.9 belongs to it; a completion likewise."""
        job = chain(0, [(0, 1, 0.3)], [(1, 0, 0.3)], arrival=0.9)
        assert finish(job, observe_interval=0.3) == pytest.approx([1.5])

    def test_a_flow_that_ends_wastes_its_bandwidth(self):
        """0->1 of 1 MB beside 0->2 of 3 MB: halves until 2; noticed at 3 with 1.5 MB left."""
        jobs = chain(0, [(0, 1, 1)]), chain(1, [(0, 2, 3)])
        assert finish(*jobs, observe_interval=3) == pytest.approx([2, 4.5])

    def test_sped_up_to_end_within_the_tolerance(self):
        """Halves of a port until 1, when 0.8 bytes are left: noticed as done at once, at 1."""
        jobs = chain(0, [(0, 1, 0.5)]), chain(1, [(0, 2, 0.5 + 0.8e-6)])
        assert finish(*jobs, observe_interval=1) == pytest.approx([1, 1], abs=1e-6)

    @pytest.mark.parametrize("allocator", ["maxmin", "parrot", "aalo-lbsf"])
    def test_an_interval_finer_than_the_clock(self, allocator):
        """At 2e4 s the clock's resolution is 4e-12 s, and 1e-6 of 1 us is less: no hang."""
        job = chain(0, [(0, 1, 1)], [(1, 0, 2)], arrival=20000)
        assert finish(job, allocator=allocator, observe_interval=1e-6) == pytest.approx([20003])

    def test_no_event_no_decision(self):
        """One flow of 9 s, observed every 0.1 s, is decided once."""
        result = netsim.simulate(NET, Workload([chain(0, [(0, 1, 9)])]), observe_interval="100ms")
        assert result.run["decisions"] == 1

    def test_compute_between_the_grid(self):
        """Computation of 0.5 s ends at 0.5, is noticed at 0.6, 1 MB ends at 1.6."""
        assert finish(chain(0, [(0, 1, 1)], compute_s=0.5), observe_interval=0.3) == [1.6]


class TestFaultEvents:
    """A link changes in the middle of a run."""

    @pytest.mark.parametrize("allocator", ["maxmin", "parrot", "aalo-lbsf", "lccf", "srpt"])
    def test_degradation_and_repair(self, allocator):
        """3 MB: 1 MB until 1, half speed until 3 (1 MB), full speed again: 1 MB until 4."""
        events = [{"at": "1s", "link": "egress-0", "capacity": MB / 2},
                  {"at": "3s", "link": "egress-0", "capacity": MB}]
        assert finish(chain(0, [(0, 1, 3)]), allocator=allocator, events=events) == [4]

    @pytest.mark.parametrize("allocator", ["maxmin", "parrot", "aalo-lbsf", "lccf", "srpt"])
    def test_failure_stops_and_repair_resumes(self, allocator):
        """1 MB until 1, nothing until 5, 2 MB until 7. Job 1 elsewhere does not notice."""
        events = [{"at": 1, "link": "ingress-1", "capacity": 0},
                  {"at": 5, "link": "ingress-1", "capacity": "8Mbps"}]
        jobs = chain(0, [(0, 1, 3)]), chain(1, [(2, 3, 2)])
        options = {"work_conservation": "greedy"} if allocator in ("aalo-lbsf", "lccf") else {}
        assert finish(*jobs, allocator={"name": allocator, **options}, events=events
                      )[0] == pytest.approx(7)

    def test_a_drop_between_two_observations_takes_effect_at_once(self):
        """Observed every 10 s: 2 MB until 2, then a link at a quarter: 4 s for the last MB."""
        events = [{"at": 2, "link": "egress-0", "capacity": MB / 4}]
        for allocator in ("maxmin", "parrot"):
            assert finish(chain(0, [(0, 1, 3)]), allocator=allocator, events=events,
                          observe_interval=10) == pytest.approx([6])

    def test_a_rise_between_two_observations_waits_for_the_next(self):
        """Observed every 2 s, doubled at 1: 2 MB until 2, then 2 MB/s: 6 MB end at 4."""
        net = netsim.big_switch(4, egress=MB, ingress=4 * MB)
        events = [{"at": 1, "link": "egress-0", "capacity": 2 * MB}]
        assert finish(chain(0, [(0, 1, 6)]), net=net, events=events, observe_interval=2) == [4]

    def test_a_coflow_that_has_ended_unnoticed_stays_ended(self):
        """It ends at 1, a link drops at 2, it is noticed at 10: its true end counts."""
        events = [{"at": 2, "link": "egress-0", "capacity": MB / 4}]
        job = chain(0, [(0, 1, 1)], [(0, 1, 1)])
        for allocator in ("maxmin", "parrot"):
            result = netsim.simulate(NET, Workload([job]), allocator=allocator, events=events,
                                     observe_interval=10)
            assert result.coflows["finish_s"].tolist() == [1, 14]

    def test_lower_bound_counts_the_best_that_a_link_ever_has(self):
        net = netsim.big_switch(4, egress=MB, ingress=4 * MB)
        events = [{"at": 1, "link": "egress-0", "capacity": 2 * MB}]
        result = netsim.simulate(net, Workload([chain(0, [(0, 1, 5)])]), events=events)
        assert result.jobs[["finish_s", "lower_bound_s"]].values.tolist() == [[3, 2.5]]

    @pytest.mark.parametrize(("event", "message"), [
        ({"at": -1, "link": 0, "capacity": 1}, "event: at must be at least 0, not -1"),
        ({"at": 1, "link": "up", "capacity": 1}, "has no link 'up'"),
        ({"at": 1, "link": 0, "capacity": -1}, "event: capacity must be at least 0, not -1"),
        (("1s", 0, 1), "a list of FaultEvent or mappings, but holds"),
        ({"at": 1, "link": 1.5, "capacity": 1}, "has no link 1.5"),
        ({"at": 1, "link": 0}, "to degrade, give a capacity or a factor"),
        ({"at": 1, "lnk": 0}, r"unknown argument of FaultEvent 'lnk' \(did you mean 'link'\?\)"),
        ({"link": 0}, "an event has the keys at, link, .*, of which at is required, not link"),
    ])
    def test_refused(self, event, message):
        with pytest.raises(InputError, match=message):
            finish(chain(0, [(0, 1, 1)]), events=[event])


class Fixed(Allocator):
    """Gives every flow what a function of the view says."""

    def __init__(self, answer):
        self.answer = answer

    def allocate(self, view):
        return self.answer(view)


class TestBadAllocators:
    """A policy that breaks the rules is named, with the time and the value."""

    @pytest.mark.parametrize(("answer", "message"), [
        (lambda view: Allocation([2 * MB]), r"Fixed at t = 0.5 s overloads link 'egress-0': it "
                                            r"would carry 2e\+06 of 1e\+06 bytes/s"),
        (lambda view: Allocation(shares=[1.5]), r"overloads link 'egress-0': it would carry 1.5e"),
        (lambda view: Allocation([math.nan]), "returned .*nan.*; rates, shares and weights must"),
        (lambda view: Allocation(shares=[math.inf]), "returned .*inf"),
        (lambda view: Allocation([-1.0]), "returned .*-1.0"),
        (lambda view: Allocation(weights=[-1.0]), "returned .*-1.0"),
        (lambda view: Allocation([1.0, 1.0]), r"returned rates of shape \(2,\), not \(1,\)"),
        (lambda view: Allocation(shares=[[1.0]]), r"shares of shape \(1, 1\), not \(1,\)"),
        (lambda view: Allocation(weights=[]), r"weights of shape \(0,\), not \(1,\)"),
        (lambda view: Allocation(weights=math.inf), "returned .*inf"),
        (lambda view: Allocation(coflow_weights=[1.0, 1.0]), r"coflow_weights of shape \(2,\)"),
        (lambda view: Allocation(coflow_weights=[0.0]), "0.0.*finite and more than 0"),
        (lambda view: Allocation(coflow_weights=[math.nan]), "nan.*finite and more than 0"),
        (lambda view: [1.0], "returned list, not an Allocation"),
        (lambda view: Allocation([1.0], revisit_at=view.now), "asks to be woken at 0.5 s"),
        (lambda view: Allocation([1.0], revisit_at=math.nan), "asks to be woken at nan s"),
    ])
    def test_named(self, answer, message):
        with pytest.raises(AllocationError, match=message) as error:
            finish(chain(0, [(0, 1, 1)], arrival=0.5), allocator=Fixed(answer))
        assert "allocator Fixed at t = 0.5 s" in str(error.value)

    def test_a_blind_policy_cannot_use_lp_rates(self):
        class Blind(Fixed):
            information = "agnostic"

        with pytest.raises(AllocationError, match=r"Blind at .* shares or MADD"):
            finish(chain(0, [(0, 1, 1)]), allocator=Blind(lambda view: Allocation(shares=[1.0])))

    def test_an_allocation_has_one_form(self):
        for wrong in ({}, {"rates": [1], "shares": [1]}, {"shares": [1], "weights": [1]}):
            with pytest.raises(AllocationError, match="one of rates, shares, weights, coflow"):
                Allocation(**wrong)
        with pytest.raises(AllocationError, match="only an Allocation of one weight for all"):
            Allocation(weights=[1.0, 1.0], persistent=True)
        with pytest.raises(AllocationError, match="more than 0, can be persistent"):
            Allocation(weights=0.0, persistent=True)
        with pytest.raises(UnknownNameError, match="choose from: coflow, flow"):
            Allocation(weights=1.0, decisions="slot")
        with pytest.raises(AllocationError, match="goes with weights or coflow_weights only"):
            Allocation(rates=[1.0], decisions="coflow")
        with pytest.raises(AllocationError, match="must be numbers"):
            Allocation(["fast"])

    def test_unchecked_infeasible_rates_are_the_users_own_risk(self):
        fast = Fixed(lambda view: Allocation([2 * MB]))
        assert finish(chain(0, [(0, 1, 1)]), allocator=fast, check=False) == [0.5]

    def test_a_stall_names_the_coflows_and_the_time(self):
        lazy = Fixed(lambda view: Allocation(np.zeros(view.flows)))
        with pytest.raises(StalledError, match=r"stalled at t = 2 s: allocator Fixed .* 2 pending "
                                               r"coflows.*job 5 \(valid since 1 s\), job 6"):
            finish(chain(5, [(0, 1, 1)], arrival=1), chain(6, [(0, 1, 1)], arrival=2),
                   allocator=lazy)

    def test_a_dead_link_stalls_what_needs_it(self):
        with pytest.raises(StalledError, match="1 pending coflows"):
            finish(chain(0, [(0, 1, 2)]), chain(1, [(2, 3, 2)]),
                   events=[{"at": 1, "link": 0, "capacity": 0}])

    def test_a_stall_is_dated_from_the_last_decision(self):
        """The link dies at 1; the alarm for the end at 2e6 s still rings, and says nothing."""
        with pytest.raises(StalledError, match="stalled at t = 1 s"):
            finish(chain(0, [(0, 1, 2e6)]), events=[{"at": 1, "link": 0, "capacity": 0}])

    def test_until_ends_a_run_that_would_stall(self):
        lazy = Fixed(lambda view: Allocation(np.zeros(view.flows)))
        jobs = netsim.simulate(NET, Workload([chain(0, [(0, 1, 1)])]), allocator=lazy,
                               until=5).jobs
        assert jobs["finish_s"].isna().all()


def test_a_flow_starts_when_it_first_moves():
    """Under max-min the fabric runs ahead: 1, 2 and 3 MB on ports of their own start at 0."""
    job = chain(0, [(0, 1, 1), (1, 2, 2), (2, 3, 3)])
    result = netsim.simulate(NET, [job])
    assert result.coflows["start_s"].tolist() == [0]
    assert result.jobs["start_s"].tolist() == [0]


@pytest.mark.parametrize("allocator", ["maxmin", "parrot"])
def test_until_records_what_moved_until_then(allocator):
    """Stopped at 1.5 s: 1.5 MB of the 3 MB have crossed each of the two links."""
    job = chain(0, [(0, 1, 3), (2, 3, 1)])
    result = netsim.simulate(NET, [job], allocator=allocator, until=1.5, record=["links"])
    carried = result.links.groupby("link", observed=True)["bytes"].sum()
    assert carried["egress-0"] == carried["ingress-1"] == pytest.approx(1.5 * MB)
    assert result.links["end_s"].max() == 1.5


def test_events_of_one_instant_apply_in_the_order_given():
    """The last one counts: 1 MB until 1, then half speed for 2 MB."""
    events = [{"at": 1, "link": 0, "capacity": 2 * MB}, {"at": 1, "link": 0, "capacity": MB / 2}]
    assert finish(chain(0, [(0, 1, 3)]), events=events) == [5]


def test_a_policy_is_woken_when_it_asks():
    """It gives half the link, then asks to be woken at 1 and gives all: 0.5 + 1.5 = 2 MB at 2.5."""
    def answer(view):
        early = view.now < 1
        return Allocation([MB / 2 if early else MB], revisit_at=1 if early else math.inf)

    assert finish(chain(0, [(0, 1, 2)]), allocator=Fixed(answer)) == [2.5]


def test_a_policy_that_asks_is_woken_on_the_observation_grid():
    """As above, but noticed at 1.2 = 4 * 0.3: 0.6 MB until then, 1.4 s for the rest."""
    def answer(view):
        early = view.now < 1
        return Allocation([MB / 2 if early else MB], revisit_at=1 if early else math.inf)

    assert finish(chain(0, [(0, 1, 2)]), allocator=Fixed(answer), observe_interval=0.3
                  ) == pytest.approx([2.6])


@pytest.mark.parametrize("interval", ["100ms", "10ms", 0.05, 0])
def test_asking_for_every_tenth_of_a_second(interval):
    """13 * 0.1 is a rounding away from 1.2 + 0.1: both are the same instant, and no hang."""
    asked = Fixed(lambda view: Allocation(view.maxmin(), revisit_at=view.now + 0.1))
    assert finish(chain(0, [(0, 1, 5)]), allocator=asked, observe_interval=interval
                  ) == pytest.approx([5])


def test_a_policy_wakes_on_what_it_says():
    """Asked when a coflow becomes valid only: job 0's share stays a half after job 1 ends."""
    class Half(Allocator):
        wakes_on = Event.COFLOW_VALID

        def allocate(self, view):
            return Allocation(np.full(view.flows, MB / 2))

    assert finish(chain(0, [(0, 1, 2)]), chain(1, [(0, 2, 1)]), allocator=Half) == [4, 2]


def test_state_of_an_instance_serves_one_run():
    """An instance is copied, so that a second run starts as the first did."""
    class Counting(Allocator):
        calls = 0

        def allocate(self, view):
            self.calls += 1
            return Allocation(np.full(view.flows, MB / self.calls))

    policy = Counting()
    runs = [finish(chain(0, [(0, 1, 1)], [(0, 1, 1)]), allocator=policy) for _ in range(2)]
    assert runs == [[3], [3]]
    assert policy.calls == 0


def test_forms_may_alternate():
    """Shares, then rates, then weights: a coflow in step is spread over its flows and back."""
    def answer(view):
        form = int(view.now) % 3
        if form == 0:
            return Allocation(shares=[0.5], revisit_at=view.now + 1)
        if form == 1:
            return Allocation([MB / 4, MB / 4], revisit_at=view.now + 1)
        return Allocation(weights=[1.0, 3.0], revisit_at=view.now + 1)

    # 0->1 of 4 MB, 0->2 of 2 MB: Gamma is 6 s. From 0 to 1 LP at half: (1/3, 1/6) MB; then
    # 1/4 each; then (1/4, 3/4) MB; at 3, (4 - 5/6, 2 - 7/6) MB = (19/6, 5/6) are left.
    result = netsim.simulate(NET, Workload([chain(0, [(0, 1, 4), (0, 2, 2)])]),
                             allocator=Fixed(answer), until=3, record=["links"])
    carried = result.links.groupby("link", observed=True)["bytes"].sum() / MB
    assert carried["ingress-1"] == pytest.approx(5 / 6)
    assert carried["ingress-2"] == pytest.approx(7 / 6)


def test_more_coflows_than_the_table_starts_with():
    """Segments move when the table grows: 200 jobs of growing width, all in disjoint time."""
    jobs = [chain(job, [(0, 1, 0.01)] * (1 + job % 7), arrival=job / 100) for job in range(200)]
    for allocator in ("maxmin", "parrot"):
        result = netsim.simulate(NET, Workload(jobs), allocator=allocator, record=["flows"])
        total = sum(1 + job % 7 for job in range(200)) / 100
        assert result.jobs["finish_s"].max() == pytest.approx(total)
        assert len(result.flows) == sum(1 + job % 7 for job in range(200))


class TestFaultsThatWere:
    def test_revisit_is_heard_whatever_a_policy_wakes_on(self):
        """Nothing moves until 1 s, when it asks to be woken; then 1 MB at 1 MB/s."""
        class Late(netsim.Allocator):
            wakes_on = Event.COFLOW_VALID

            def allocate(self, view):
                if view.now < 1:
                    return Allocation(np.zeros(view.flows), revisit_at=1.0)
                return Allocation(view.maxmin())

        for interval in (0.0, 0.25):
            result = netsim.simulate(NET, [chain(0, [(0, 1, 1)])], allocator=Late,
                                     observe_interval=interval)
            assert result.jobs["finish_s"].tolist() == [2.0]

    def test_room_for_another_job_is_no_coflow_event(self):
        """Flows of 1, 2 and 10 MB leave one host at 1/3 MB/s each, until all have ended at 30 s.

        At 4 s a job arrives whose 300 flows need more room, and that computes first.
        """
        wide = JobSpec(1, 4.0, hosts=range(4, 8), iterations=2, stages=[
            Stage("s", [(0, 1 + k % 3, MB) for k in range(300)], compute_s=100.0)])
        for policy in ("maxmin:decisions=coflow", {"name": "maxmin", "decisions": "coflow",
                                                   "weights": "coflow"}):
            found = netsim.simulate(netsim.big_switch(8, MB), [
                JobSpec(0, hosts=range(4), stages=[
                    Stage("s", [(0, 1, MB), (0, 2, 2 * MB), (0, 3, 10 * MB)])]), wide],
                allocator=policy)
            assert found.jobs["finish_s"][0] == pytest.approx(30.0)

    def test_more_links_than_two_bytes_can_number(self):
        """A flow of 2 MB between the last of 33,000 hosts, at 1 MB/s."""
        flows = Workload.from_arrays([32_998], [32_999], [2 * MB], 0.0)
        assert netsim.simulate(netsim.big_switch(33_000, MB), flows).jobs["jct_s"].tolist() == [2]

    def test_decisions_that_change_from_coflow_to_flow(self):
        """Of two flows at 0.5 MB/s 1 MB ends at 2 s; from 3 s on the other 8.5 MB have 1 MB/s."""
        class Changes(netsim.Allocator):
            def allocate(self, view):
                if view.now < 3:
                    return Allocation(weights=1.0, decisions="coflow", revisit_at=3.0)
                return Allocation(weights=1.0)

        assert finish(chain(0, [(0, 1, 1), (0, 2, 10)]), allocator=Changes)[0] == 11.5

    @pytest.mark.parametrize("weight", [1.0, 7.0])
    def test_what_stands_is_not_asked_again(self, weight):
        """Two flows share a link from 1 s on: 2 MB end at 3 s, and 1 MB that came at 1 s, too."""
        asked = []

        class Once(netsim.Allocator):
            def allocate(self, view):
                asked.append(view.now)
                return Allocation(weights=weight, persistent=True)

        jobs = [chain(0, [(0, 1, 2)]), chain(1, [(0, 1, 1)], arrival=1)]
        assert finish(*jobs, allocator=Once) == pytest.approx([3.0, 3.0])
        assert asked == [0.0]

    @pytest.mark.parametrize("allocator", ["maxmin", "maxmin:weights=coflow", "coflow-fair"])
    @pytest.mark.parametrize("count", [15, 16, 17, 32, 33])
    def test_any_number_of_coflows(self, allocator, count):
        """Of as many flows of 1, 2, 3 ... MB on a link of 1 MB/s: the k-th ends at the sum of
        what all have sent by then, 1 + ... + k and k for each that is longer.
        """
        jobs = [chain(k, [(0, 1, k + 1)]) for k in range(count)]
        expected = [k * (k + 1) / 2 + k * (count - k) for k in range(1, count + 1)]
        assert finish(*jobs, allocator=allocator) == pytest.approx(expected)

    def test_coflows_split_their_weights(self):
        """On a link of 1 MB/s, one coflow of two flows, of 1 and 2 MB, beside one of one flow.

        Each coflow has half of the link: the two flows get 1/4 MB/s each, so that the shorter
        ends at 4 s, when the longer and the single one, of 3 MB, have 1 MB left each. From then
        on these get 1/2 MB/s each, and end at 6 s.
        """
        split = Fixed(lambda view: Allocation(coflow_weights=np.ones(len(view))))
        split.wakes_on = netsim.Event.COFLOW
        assert finish(chain(0, [(0, 1, 1), (0, 1, 2)]), chain(1, [(0, 1, 3)]),
                      allocator=split) == pytest.approx([6.0, 6.0])

    def test_weights_too_far_apart_are_refused(self):
        wide = Fixed(lambda view: Allocation(weights=[1e20, 1.0]))
        with pytest.raises(AllocationError, match=r"weights from 1 to 1e\+20"):
            finish(chain(0, [(0, 1, 1), (0, 2, 1)]), allocator=wide)

    def test_a_later_upgrade_is_not_known_before(self):
        """Gamma is 1 s; that the link is to be four times as fast at 5 s only lowers the bound."""
        seen = []

        class Look(netsim.Allocator):
            information = "job-clairvoyant"

            def allocate(self, view):
                seen.append((view.nominal_gamma[0], view.job_longest_gamma[0]))
                return Allocation(shares=np.ones(len(view)))

        result = netsim.simulate(NET, [chain(0, [(0, 1, 1)])], allocator=Look, events=[
            {"at": 5, "link": link, "capacity": 4 * MB} for link in ("egress-0", "ingress-1")])
        assert seen[0] == (1.0, 1.0)
        assert result.coflows["gamma_s"].tolist() == [1.0]
        assert result.jobs["lower_bound_s"].tolist() == [0.25]

    def test_alarms_do_not_pile_up(self):
        """While one coflow takes 1,000 s, 200 others come and go: few alarms wait at any time."""
        jobs = [chain(0, [(0, 1, 1000)])]
        jobs += [netsim.JobSpec(k, 2.0 * k, hosts=[2, 3], stages=[
            netsim.Stage("short", [(0, 1, float(MB))])]) for k in range(1, 200)]
        most = []

        class Count(netsim.Allocator):
            def allocate(self, view):
                most.append(len(run.fabric._alarm._set))
                return Allocation(view.maxmin())

        run = make_run(RunSpec(network=NET, workload=jobs, allocator=Count(), record=("jobs",)))
        while not run.ended:
            run.step()
        assert max(most) <= 4

    def test_asking_in_vain_is_an_error(self):
        class Restless(netsim.Allocator):
            def allocate(self, view):
                return Allocation(view.maxmin(), revisit_at=math.nextafter(view.now, math.inf))

        with pytest.raises(AllocationError, match="asked to be woken 1000 times in a row"):
            finish(chain(0, [(0, 1, 1e12)], arrival=1.0), allocator=Restless)

    def test_asking_for_ever_while_nobody_moves_is_an_error(self, monkeypatch):
        """500 looks are allowed here, and any number while something is to come."""
        monkeypatch.setattr("netsim.fabric.policy._MOST_IDLE", 500)

        class Waits(netsim.Allocator):
            def __init__(self, until):
                self.until = until

            def allocate(self, view):
                full = np.full(view.flows, MB * (view.now >= self.until))
                return Allocation(full, revisit_at=view.now + 1)

        job = chain(0, [(0, 1, 1)])
        assert finish(job, allocator=Waits(499)) == [500]
        assert finish(job, chain(1, [(2, 3, 1)], arrival=5000), allocator=Waits(5100)) == [
            5101, 5101]
        with pytest.raises(AllocationError, match=r"at t = 501 s has asked to be woken 500 times "
                                                  "in a row and lets nobody move, and nothing"):
            finish(job, allocator=Waits(math.inf))


class TestCoflowsWithoutBytes:
    """Each comes and ends at one instant, which is a coflow event as any other.

    Job 0 sends 1 and 3 MB from host 0, at 1/2 MB/s each until 2 s. Decided at coflow events only,
    the second flow goes on at 1/2 until 3 s, when it has 1.5 MB left, and ends at 4.5 s.
    """

    @pytest.mark.parametrize("other", [
        JobSpec(1, 3.0, stages=[Stage("empty", [])], hosts=range(4)),
        JobSpec(1, 3.0, stages=[Stage("empty", [(1, 2, 0.0)])], hosts=range(4)),
        JobSpec(1, stages=[Stage("empty", [], compute_s=3.0)], hosts=range(4), iterations=2),
        JobSpec(1, 3.0, stages=[Stage("a", []), Stage("b", [], after=["a"])], hosts=range(4))])
    def test_are_decided_on(self, other):
        assert finish(chain(0, [(0, 1, 1), (0, 2, 3)]), other,
                      allocator={"name": "maxmin", "decisions": "coflow"})[0] == 4.5

    def test_among_many_of_one_coflow_each(self):
        """Known beforehand, batch by batch: 5,000 coflows, every other without bytes.

        They follow each other every second, and each of the others sends for half of one.
        """
        jobs = [JobSpec(k, float(k), stages=[Stage("only", [(0, 1, MB / 2 * (k % 2))])],
                        hosts=range(4)) for k in range(10_000)]
        for allocator in some(("maxmin", "sebf"), 0, of=2):
            result = netsim.simulate(NET, Workload(jobs), allocator=allocator)
            np.testing.assert_allclose(result.jobs["jct_s"], [0, 0.5] * 5_000, atol=1e-9)


@pytest.mark.parametrize(("late", "start"), [(0, 1), (5e-7, 1 + 5e-7), (2e-6, 2)])
@pytest.mark.parametrize("allocator", ["maxmin", "parrot", "sebf"])
@pytest.mark.parametrize("iterations", [1, 2])
def test_an_arrival_just_after_an_observation_belongs_to_it(late, start, allocator, iterations):
    """Observed every 1 s. What comes within 1e-6 s after 1 s starts at once, else at 2 s."""
    jobs = Workload([chain(0, [(0, 1, 100)]), chain(1, [(2, 3, 1)], arrival=1 + late,
                                                    iterations=iterations)])
    result = netsim.simulate(NET, jobs, allocator=allocator, observe_interval=1)
    assert result.coflows.query("job == 1")["start_s"].iloc[0] == pytest.approx(start, abs=1e-9)


@pytest.mark.parametrize("work", ["uniform", "backfill", "none", "per_flow"])
@pytest.mark.parametrize("record", [["jobs"], ["jobs", "decisions"]])
def test_who_needs_a_dead_link_limits_no_other(work, record):
    """Parrot; two jobs on hosts of their own, 1 MB and 4 MB at a time. Egress 0 dies at 1.5 s.

    At first both may have half (S = 0), and `uniform` doubles that: job 1 has sent 1 MB at 1 s,
    when job 0 has completed a coflow and is first, with 0.9. Times 1/0.9 that leaves 1/9 to job
    1 until 1.5 s. Then job 0 cannot move, at any factor, and job 1 has the link: its 8 MB end at
    1.5 + 8 - 1 - 1/18 = 8.444... s. With `backfill` and `per_flow` it always has the link. With
    none both have 1/2 until 1.5 s; then job 0, as good and the earlier, keeps 0.9 to itself, until
    job 1 has completed 3.25 MB at 0.1 and is first: 1.5 + 32.5 + 4/0.9 = 346/9 s.
    """
    result = netsim.simulate(
        NET, Workload([chain(0, [(0, 1, 1)], iterations=2), chain(1, [(2, 3, 4)], iterations=2)]),
        allocator={"name": "parrot", "work_conservation": work}, record=record, until=200,
        events=[{"at": 1.5, "link": "egress-0", "capacity": 0},
                {"at": 100, "link": "egress-0", "capacity": MB}])
    expected = {"uniform": [100.5, 152 / 18], "backfill": [100.5, 8], "per_flow": [100.5, 8],
                "none": [101.25, 346 / 9]}
    assert result.jobs["finish_s"].tolist() == pytest.approx(expected[work])


def test_ties_within_a_job_go_by_coflow_id():
    """Both coflows of 1 MB enter host 2; that of id 4 is first, though it is listed second."""
    stages = [Stage("x", [(1, 2, MB)], coflow_id=14), Stage("y", [(2, 2, MB)], coflow_id=4)]
    result = netsim.simulate(netsim.big_switch(4, MB, loopback_uses_ports=True),
                             Workload([JobSpec(0, stages=stages, hosts=range(4))]),
                             allocator="aalo")
    assert dict(zip(result.coflows["coflow"], result.coflows["finish_s"], strict=True)) == {
        4: 1, 14: 2}
