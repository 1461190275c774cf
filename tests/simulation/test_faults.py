"""Faults on networks: links fail, hosts are lost, flows go round dead links. Ports: 1 MB/s."""

from typing import ClassVar

import numpy as np
import pytest

import netsim
from netsim import FaultEvent, JobSpec, Stage
from netsim.errors import InputError, StalledError
from netsim.jobs.plan import ecmp_key
from netsim.network.live import LiveNetwork
from tests.pairs import in_turn

MB = 1e6
NET = netsim.big_switch(4, MB)
SPINE = netsim.leaf_spine(2, 2, 2, MB, oversubscription=1)
POLICIES = ["maxmin", "parrot", "aalo-lbsf", "sebf", "aalo", "srpt", "coflow-fair", "equal-split",
            "sincronia", "ring-contention:count=running"]


def once(nbytes, src=0, dst=1, **options):
    return JobSpec(options.pop("id", 0), stages=[Stage("send", [(0, 1, nbytes * MB)])],
                   hosts=(src, dst), **options)


#: Iterations of 4 s: 1 s of computation, 3 MB from host 0 to host 1.
FOUR = JobSpec(0, stages=[Stage("send", [(0, 1, 3 * MB)], compute_s=1)], iterations=4, hosts=(0, 1))


def run(*jobs, **options):
    return netsim.simulate(options.pop("net", NET), jobs, **options)


def finish(*jobs, **options):
    return run(*jobs, **options).jobs["finish_s"].tolist()


def fail(at, until=None, **where):
    """A failure from one instant to another."""
    restart = where.pop("restart", None)
    found = [{"at": at, "kind": "fail", **where} | ({"restart": restart} if restart else {})]
    return found if until is None else [*found, {"at": until, "kind": "repair", **where}]


class TestLinks:

    @pytest.mark.parametrize("allocator", POLICIES)
    def test_a_failure_of_two_seconds_takes_two_seconds(self, allocator):
        events = fail(1, 3, link="egress-0")
        assert finish(once(3), allocator=allocator, events=events) == pytest.approx([5])

    @pytest.mark.parametrize("allocator", POLICIES)
    def test_half_the_capacity_takes_twice_the_time(self, allocator):
        """1 MB until 1, then 2 MB at half speed until 5."""
        events = [{"at": 1, "link": "ingress-1", "factor": 0.5}]
        assert finish(once(3), allocator=allocator, events=events) == pytest.approx([5])

    def test_a_repair_brings_back_what_was_there_at_first(self):
        """1 MB until 1, nothing until 2, a quarter until 4 (0.5 MB), 1.5 MB until 5.5."""
        events = [*fail(1, link=0), {"at": 2, "link": 0, "factor": 0.25},
                  {"at": 4, "link": 0, "kind": "repair"}]
        assert finish(once(3), events=events) == [5.5]

    def test_a_host_degrades_with_all_its_links(self):
        """Job 0 leaves host 1, job 1 reaches it: half speed for both from 1 on."""
        events = [{"at": 1, "host": 1, "factor": 0.5}]
        assert finish(once(2, 1, 0), once(2, 0, 1, id=1), once(2, 2, 3, id=2), events=events
                      ) == [3, 3, 2]
        events = [{"at": 1, "host": 1, "capacity": MB / 4}]
        assert finish(once(2, 1, 0), events=events) == [5]

    def test_without_restart_a_host_that_fails_computes_on(self):
        """Computation until 1, and links are there again at 2.5: 3 MB until 5.5, then 12 s."""
        assert finish(FOUR, events=fail(0.5, 2.5, host=1)) == [17.5]


class TestRestarts:

    @pytest.mark.parametrize("allocator", POLICIES)
    def test_a_host_lost_in_the_third_iteration(self, allocator):
        """Lost at 9.5, after 1 s of computation and 0.5 MB; from 20 on two iterations of 4 s."""
        result = run(FOUR, allocator=allocator, events=fail(9.5, 20, host=1, restart=True),
                     record=("coflows", "flows", "links"))
        row = result.jobs.iloc[0]
        assert row[["finish_s", "lost_s", "start_s"]].tolist() == pytest.approx([28, 1.5, 1])
        assert row["restarts"] == 1
        assert row[["bytes", "lost_bytes"]].tolist() == pytest.approx([12 * MB, 0.5 * MB])
        assert result.coflows["coflow"].tolist() == [0, 1, 2, 3]
        assert result.coflows["valid_s"].tolist() == pytest.approx([1, 5, 21, 25])
        assert result.flows["finish_s"].tolist() == pytest.approx([4, 8, 24, 28])
        carried = result.links.groupby("link", observed=True)["bytes"].sum()
        assert carried["egress-0"] == pytest.approx(12.5 * MB)
        summary = result.summary()
        assert summary["restarts"] == 1
        assert [summary["lost_s"], summary["lost_bytes"]] == pytest.approx([1.5, 0.5 * MB])

    def test_what_was_being_computed_is_computed_anew(self):
        """Lost at 8.5, in the middle of 1 s of computation, whose end at 9 means nothing."""
        result = run(FOUR, events=fail(8.5, 8.75, host=0, restart=True))
        assert result.jobs[["finish_s", "lost_s", "lost_bytes"]].values.tolist() == [
            [16.75, 0.5, 0]]

    def test_stages_that_had_ended_are_run_again(self):
        """Stages a (1 s) and b (2 s) side by side, c (1 s) behind a; d (1 s), held by e (2 s).

        Lost at 1.5: a and d have sent 1 MB each, c half of one, b 1.5; e has computed 1.5 s.
        From 3 on once more, until 5.
        """
        stages = [Stage("a", [(0, 1, MB)]), Stage("b", [(1, 2, 2 * MB)]),
                  Stage("c", [(0, 1, MB)], after=["a"]),
                  Stage("d", [(2, 3, MB)], finishes_before=["e"]), Stage("e", compute_s=2)]
        result = run(JobSpec(0, stages=stages, hosts=range(4)),
                     events=fail(1.5, 3, host=3, restart=True))
        assert result.coflows["valid_s"].tolist() == [3, 3, 4, 3]
        assert result.jobs[["finish_s", "lost_s", "lost_bytes", "bytes"]].values.tolist() == [
            [5, 1.5, 4 * MB, 5 * MB]]

    def test_what_ends_at_that_instant_has_ended(self):
        """At 8 two iterations have been made: the other two follow from 10 on."""
        result = run(FOUR, events=fail(8, 10, host=0, restart=True))
        assert result.jobs[["finish_s", "lost_s", "restarts"]].values.tolist() == [[18, 0, 1]]
        result = run(FOUR, events=fail(16, host=0, restart=True))
        assert result.jobs[["finish_s", "restarts"]].values.tolist() == [[16, 0]]

    def test_who_arrives_meanwhile_waits_and_has_lost_nothing(self):
        """Also at the very instant of the loss."""
        jobs = once(1, arrival_s=2), once(1, 2, 1, id=1, arrival_s=1), once(1, 3, 2, id=2)
        result = run(*jobs, events=fail(1, 5, host=1, restart=True))
        assert result.jobs.set_index("job").loc[[0, 1, 2], "finish_s"].tolist() == [7, 7, 1]
        assert result.jobs["restarts"].tolist() == [0, 0, 0]

    def test_it_goes_on_when_all_its_hosts_are_there(self):
        """Lost at 9.5 with host 0, at 10 also host 1; they are back at 12 and 11."""
        events = [*fail(9.5, 12, host=0, restart=True), *fail(10, 11, host=1, restart=True)]
        result = run(FOUR, events=events)
        assert result.jobs[["finish_s", "restarts"]].values.tolist() == [[20, 1]]

    def test_a_host_that_is_back_at_once(self):
        result = run(FOUR, events=fail(9.5, 9.5, host=0, restart=True))
        assert result.jobs[["finish_s", "restarts"]].values.tolist() == [[17.5, 1]]

    def test_lost_again_and_again(self):
        """Each loss in the second iteration, of which 1, 2 and 3 s are lost."""
        events = [event for at in (5, 7, 10) for event in fail(at, at, host=0, restart=True)]
        result = run(FOUR, events=events)
        assert result.jobs[["finish_s", "restarts", "lost_s"]].values.tolist() == [[22, 3, 6]]

    def test_others_do_not_notice(self):
        """On other hosts, whether they are left to the fabric or not."""
        others = [JobSpec(k, arrival_s=k / 2, pattern="ring-all-reduce", ranks=2, nbytes=MB,
                          iterations=3, hosts=(2, 3)) for k in range(1, 5)]
        usual = run(FOUR, *others)
        lost = run(FOUR, *others, events=fail(9.5, 20, host=1, restart=True))
        for column in ("finish_s", "start_s", "bytes", "lower_bound_s"):
            np.testing.assert_allclose(lost.jobs[column][1:], usual.jobs[column][1:], rtol=1e-12)

    def test_an_end_that_nobody_has_observed_is_lost(self):
        """Observed every 5 s, its first MB ends at 1 and is lost at 2: again from 5 until 6."""
        result = run(once(1), observe_interval=5, events=fail(2, 4, host=0, restart=True))
        assert result.jobs[["finish_s", "lost_bytes"]].values.tolist() == [[6, MB]]

    def test_until_a_job_waits_and_the_others_have_ended(self):
        result = run(FOUR, once(1, 2, 3, id=1), events=fail(9.5, host=1, restart=True), until=30)
        assert result.jobs["finish_s"].isna().tolist() == [True, False]
        assert result.jobs["restarts"].tolist() == [1, 0]
        assert result.jobs["coflows"].tolist() == [2, 1]
        assert result.run["stopped_at_s"] == 30

    def test_what_the_last_iteration_has_completed_counts_until_then(self):
        """Stopped in an iteration whose first coflow has ended."""
        stages = [Stage("a", [(0, 1, MB)]), Stage("b", [(0, 1, MB)], after=["a"]),
                  Stage("c", compute_s=1)]
        result = run(JobSpec(0, stages=stages, hosts=(0, 1), iterations=2), until=3.5)
        assert result.coflows["finish_s"].tolist() == [1, 2, 3]
        assert result.jobs["bytes"].tolist() == [3 * MB]

    def test_policies_see_what_was_sent_and_what_is_to_come(self):
        """Lost at 9.5: 6.5 MB sent, and two iterations, 6 s alone, to come."""
        seen = {}

        class Look(netsim.Allocator):
            information = "job-clairvoyant"

            def allocate(self, view):
                seen[view.now] = view.job_ahead_s.tolist(), view.job_attained.tolist()
                return netsim.Allocation(view.maxmin())

        run(FOUR, allocator=Look, events=fail(9.5, 20, host=1, restart=True))
        assert seen[9] == ([3], [6 * MB])
        assert seen[21] == ([3], [6.5 * MB])
        assert seen[25] == ([0], [9.5 * MB])


def stage_on(spine, src=0, dst=2, job=0):
    """The name of a stage of a job whose first flow takes a spine."""
    names = (f"send-{number}" for number in range(99))
    return next(name for name in names if SPINE.link(f"leaf-0->spine-{spine}") in SPINE.route(
        src, dst, ecmp_key(job, name)))


def pair(nbytes, **options):
    """Two jobs from leaf 0 to leaf 1, each on a spine of its own."""
    return [JobSpec(k, hosts=(k, k + 2), stages=[
        Stage(stage_on(k, k, k + 2, k), [(0, 1, nbytes * MB)])], **options) for k in range(2)]


class TestRoutes:

    @pytest.mark.parametrize("allocator", ["maxmin", "coflow-fair", "equal-split"])
    def test_who_loses_a_spine_shares_the_other(self, allocator):
        """1 MB each until 1, then half speed: 2 MB each take 4 s; each has but one flow."""
        found = finish(*pair(3), net=SPINE, allocator=allocator,
                       events=fail(1, link="leaf-0->spine-0"))
        assert found == pytest.approx([5, 5])

    def test_a_policy_that_serves_one_after_the_other_does_so_on_the_other_spine(self):
        """Job 0 goes first on what both share from 1 on: 2 MB until 3, then job 1 until 5."""
        found = finish(*pair(3), net=SPINE, allocator="fifo",
                       events=fail(1, link="leaf-0->spine-0"))
        assert found == pytest.approx([3, 5])

    @pytest.mark.parametrize("interval", [0, 0.5])
    def test_flows_go_back_when_a_link_is_repaired(self, interval):
        """1 MB each until 1, 1 MB each until 3, then each its last MB alone."""
        assert finish(*pair(3), net=SPINE, observe_interval=interval,
                      events=fail(1, 3, link="leaf-0->spine-0")) == pytest.approx([4, 4])

    def test_a_job_alone_does_not_notice(self):
        """Neither what is in flight nor what begins later: three iterations of 2 s."""
        job = pair(2, iterations=3)[0]
        result = run(job, net=SPINE, events=fail(1, link="leaf-0->spine-0"), record=["links"])
        assert result.jobs["finish_s"].tolist() == [6]
        carried = result.links.groupby("link", observed=True)["bytes"].sum()
        assert carried["leaf-0->spine-0"] == pytest.approx(MB)
        assert carried["spine-1->leaf-1"] == pytest.approx(5 * MB)

    @pytest.mark.parametrize("allocator", POLICIES)
    def test_a_lost_switch_is_all_of_its_links(self, allocator):
        """1 MB each until 1, then two of 2 MB on the other spine, which is there until 3."""
        events = [*fail(1, switch="spine-0"), *fail(3, 4, switch="spine-1")]
        each = [{"at": event["at"], "kind": event["kind"], "link": link} for event in events
                for spine in [event["switch"]] for leaf in ("leaf-0", "leaf-1")
                for link in (f"{leaf}->{spine}", f"{spine}->{leaf}")]
        found = [finish(*pair(3), net=SPINE, allocator=allocator, events=given)
                 for given in (events, each)]
        assert found[0] == found[1]
        assert max(found[0]) == pytest.approx(6)  # 4 MB are left at 1, of which 2 MB at 3

    def test_in_the_midst_of_a_run(self):
        whole = finish(*pair(3), net=SPINE, events=fail(1, 2, switch="spine-0"))
        held = netsim.Simulation(SPINE, pair(3))
        held.run(until=1)
        held.fail(switch="spine-0")
        held.run(until=2)
        held.repair(switch="spine-0")
        held.run()
        assert held.result().jobs["finish_s"].tolist() == pytest.approx(whole)

    def test_names_of_nodes(self):
        """A host by its name; a switch whose name is misspelt, and a host as a switch."""
        assert finish(pair(3)[0], net=SPINE, events=fail(1, 3, host="host-0")) == [5]
        for name in ("spine-2", "host-0"):
            with pytest.raises(InputError, match=rf"unknown switch of network .*{name}.*leaf-0"):
                finish(pair(3)[0], net=SPINE, events=fail(1, switch=name))
        with pytest.raises(InputError, match=r"has no host 'spine-0', which is a switch; it"):
            finish(pair(3)[0], net=SPINE, events=fail(1, host="spine-0"))

    def test_without_a_way_it_waits_for_any(self):
        """Both ways up are dead from 1 on; the other one than its own is repaired at 4."""
        events = [*fail(1, link="leaf-0->spine-0"), *fail(1, 4, link="leaf-0->spine-1")]
        assert finish(pair(3)[0], net=SPINE, events=events) == [6]

    def test_a_lost_host_does_not_relay(self):
        """From host 0 to host 2 of a ring of 4, by host 1; then by host 3."""
        ring = netsim.ring(4, MB, routing="shortest")
        by = next(host for host in (1, 3) if any(
            ring.link_names[link].startswith(f"host-{host}->") for link in ring.route(0, 2)))
        job = once(3, 0, 2)
        assert finish(job, net=ring, events=fail(1, host=by, restart=True)) == [3]
        with pytest.raises(StalledError, match=r"dead links: .*host-0->host-1"):
            finish(job, net=ring, events=[*fail(1, host=1), *fail(2, host=3)])

    def test_a_way_round_may_be_faster_than_the_usual_one(self):
        """Both flows collide on spine 0, and take 2 s; it fails, and they take one of two each.

        The bound must not be 2 s, then: only ports, which no flow can go round, count for it.
        """
        net = netsim.leaf_spine(2, 3, 2, MB, oversubscription=2 / 3)
        live = LiveNetwork(net)
        live.set_dead([net.link("leaf-0->spine-0")])
        name = next(name for name in map(str, range(999)) if [
            [network.link_names[network.route(k, k + 2, ecmp_key(0, name) + k)[1]][-1]
             for k in range(2)] for network in (net, live)] == [["0", "0"], ["1", "2"]])
        job = JobSpec(0, hosts=range(4), stages=[Stage(name, [(0, 2, MB), (1, 3, MB)])])
        usual = run(job, net=net)
        assert usual.jobs[["finish_s", "lower_bound_s"]].values.tolist() == [[2, 2]]
        result = run(job, net=net, events=fail(0, link="leaf-0->spine-0"))
        assert result.jobs[["finish_s", "lower_bound_s"]].values.tolist() == [[1, 1]]

    def test_on_a_topology_without_ways_round_jobs_stay_with_the_fabric(self):
        """The run is the same to the last bit as with the capacity 0 that it always took."""
        jobs = [JobSpec(k, arrival_s=k / 4, pattern="ring-all-reduce", ranks=3, nbytes=MB,
                        iterations=3) for k in range(5)]
        events = [{"at": 1, "link": 2, "capacity": 0}, {"at": 2, "link": 2, "capacity": MB}]
        old, new = (netsim.simulate(NET, jobs, allocator="parrot", events=each)
                    for each in (events, fail(1, 2, link="egress-2")))
        assert old.jobs.equals(new.jobs)
        assert old.coflows.equals(new.coflows)
        assert "restarts" not in new.jobs


SPINES = {routing: netsim.leaf_spine(4, 2, 3, MB, routing=routing, oversubscription=1)
          for routing in ("ecmp", "spray")}
RING = netsim.ring(6, MB, latency="0.25s")
UP = "leaf-0->spine-0"


class TestJobsOfASingleCoflow:
    """They need no process because of events: they are rerouted together."""

    @pytest.mark.parametrize(("faults", "allocator", "interval"), in_turn([
        (SPINES["spray"], [{"at": 1, "link": UP, "factor": 0.25}]),
        (SPINES["spray"], fail(1, link=UP)),
        (SPINES["spray"], [*fail(1, 3, switch="spine-1"), *fail(2, 2.5, link=UP)]),
        (SPINES["spray"], [*fail(1, 4, switch="leaf-2"), *fail(0, 2, host=0)]),
        (SPINES["ecmp"], fail(1, link=UP)),
        (SPINES["ecmp"], [*fail(1, 3, switch="spine-1"), *fail(2, 4, host=7)]),
        (RING, [*fail(1, 2, link="host-0->host-1"), *fail(1.5, 4, host=3)])],
        ["maxmin", "sebf", "aalo", "equal-split"], [0, 0.3], rounds=2))
    def test_routed_together_and_alike(self, monkeypatch, faults, allocator, interval):
        """As many routings as for the arrivals and the changes, however many jobs there are.

        The same jobs are processes where one could restart, which here never happens. A third of
        them computes first, so that some are rerouted before they send.
        """
        (net, events), calls = faults, []
        routes = LiveNetwork.routes
        monkeypatch.setattr(LiveNetwork, "routes", lambda self, *args: (
            calls.append(len(args[0])), routes(self, *args))[1])
        rng = np.random.default_rng(len(events))
        jobs = [JobSpec(k, arrival_s=k % 5 / 2, hosts=rng.permutation(net.hosts)[:3].tolist(),
                        compute_s=float(k % 3 == 0), stages=[
                            Stage("send", [(0, 1, k % 4 * MB), (0, 2, MB), (2, 1, k % 2 * MB)])])
                for k in range(60)]
        named = dict(net=net, allocator=allocator, observe_interval=interval,
                     record=("jobs", "coflows", "flows"))
        found = run(*jobs, **named, events=events)
        assert 1 <= len(calls) <= 1 + 3 * 2 * len(events)
        calls.clear()
        alone = run(*jobs, **named, events=[*events, *fail(1e6, host=0, restart=True)])
        assert len(calls) >= len(jobs)
        assert found.jobs.equals(alone.jobs[list(found.jobs)])
        for name in ("coflows", "flows"):
            assert getattr(found, name).equals(getattr(alone, name))
        assert found.run["decisions"] == alone.run["decisions"]

    def test_messages_without_bytes_arrive_by_the_way_of_their_begin(self):
        """By hosts 0, 1, 2 for 0.5 s; from 1 on by 0, 5, 4, 3, 2, for 1 s, valid from 1.5 on."""
        ring = netsim.ring(6, MB, latency="0.25s", routing="shortest")
        job = JobSpec(0, hosts=(0, 2), compute_s=1.5, stages=[Stage("none", [(0, 1, 0.0)])])
        assert finish(job, net=ring) == [2]
        assert finish(job, net=ring, events=fail(1, link="host-0->host-1")) == [2.5]
        assert finish(job, net=ring, events=fail(1.75, link="host-0->host-1")) == [2]

    def test_what_it_would_take_alone_is_as_of_when_it_became_valid(self):
        """Two flows on a spine each, 1 s; from 1 on they share one, 2 s. Both begin after that."""
        net = netsim.leaf_spine(2, 2, 2, MB, oversubscription=1, overhead="2s")
        name = next(name for name in map(str, range(999)) if len({
            net.route(k, k + 2, ecmp_key(0, name) + k)[1] for k in range(2)}) == 2)
        for arrival, gamma in ((0, 1), (1, 2)):
            job = JobSpec(0, arrival_s=arrival, hosts=range(4),
                          stages=[Stage(name, [(0, 2, MB), (1, 3, MB)])])
            found = run(job, net=net, events=fail(1, link=UP), record=("jobs", "coflows"))
            assert found.coflows["gamma_s"].tolist() == [gamma]
            assert found.jobs["finish_s"].tolist() == [arrival + 4]


class TestRunsThatCannotEnd:

    @pytest.mark.parametrize("allocator", POLICIES)
    @pytest.mark.parametrize("interval", [0, 0.5])
    def test_dead_links_are_named(self, allocator, interval):
        with pytest.raises(StalledError, match=r"stalled at .*1 pending coflows.*coflows of job 0 "
                           r"\(valid since 0 s\); dead links: 'egress-0'; .*needs an end, `until`"):
            finish(once(3), once(3, 2, 3, id=1), allocator=allocator, observe_interval=interval,
                   events=[*fail(1, link="egress-0"), *fail(1, link="ingress-0")])

    def test_a_policy_that_asks_again_and_again_does_not_ask_for_ever(self):
        """It would be woken every 0.1 s; but it waits for a repair, and `until` an end comes."""
        class Impatient(netsim.Allocator):
            def allocate(self, view):
                return netsim.Allocation(view.maxmin(), revisit_at=view.now + 0.1)

        with pytest.raises(StalledError, match=r"coflows of job 0 .*dead links: 'egress-0'"):
            finish(once(3), once(9, 2, 3, id=1), allocator=Impatient, events=fail(1, link=0))
        assert finish(once(3), allocator=Impatient, events=fail(1, 3, link=0)) == [
            pytest.approx(5)]
        assert run(once(3), allocator=Impatient, events=fail(1, link=0), until=9
                   ).run["decisions"] > 80

    def test_hosts_that_jobs_wait_for_are_named(self):
        events = [*fail(1, host=0, restart=True), *fail(2, host=1, restart=True)]
        with pytest.raises(StalledError, match=r"at t = .* s: lost hosts are not repaired; job 0 "
                                               "waits for host 0, 1; a run"):
            finish(FOUR, events=events)

    def test_both_are(self):
        events = [*fail(1, host=0, restart=True), *fail(2, link="egress-2")]
        with pytest.raises(StalledError, match=r"coflows of job 1 .*dead links: 'egress-2'; lost "
                                               r"hosts are not repaired; job 0 waits for host 0"):
            finish(FOUR, once(9, 2, 3, id=1), events=events)


class TestEvents:

    def test_objects_and_mappings_are_alike(self):
        given = FaultEvent("9.5s", host=1, kind="fail", restart=True), FaultEvent(20, host=1,
                                                                                 kind="repair")
        assert finish(FOUR, events=given) == [28]
        assert finish(once(3), events=[FaultEvent(1, "egress-0", "4Mbps")]) == [5]

    @pytest.mark.parametrize(("event", "message"), [
        ({"at": 1, "kind": "fail"}, "event: give one of link, host and switch"),
        ({"at": 1, "kind": "fail", "link": 0, "host": 0}, "event: give one of link, host and swi"),
        ({"at": 1, "kind": "fail", "switch": "spine-0"}, "'big-switch' has no switch 'spine-0'"),
        ({"at": 1, "kind": "fail", "switch": 0}, "event: switch must be a name, not 0"),
        ({"at": 1, "kind": "break", "link": 0}, "one of degrade, fail, repair, not 'b"),
        ({"at": 1, "kind": "fail", "link": 0, "capacity": 1}, "to fail takes no capacity and no"),
        ({"at": 1, "kind": "repair", "link": 0, "factor": 1}, "to repair takes no capacity and no"),
        ({"at": 1, "link": 0, "capacity": 1, "factor": 1}, "give a capacity or a factor"),
        ({"at": 1, "link": 0, "factor": -1}, "event: factor must be at least 0, not -1"),
        ({"at": 1, "host": 4, "kind": "fail"}, "has no host 4; it has 4, numbered from 0"),
        ({"at": 1, "host": "0", "kind": "fail"}, "has no host '0'; it has 4, numbered from 0"),
        ({"at": 1, "host": 0.5, "kind": "fail"}, "host must be a name or a whole number, not 0.5"),
        ({"at": 1, "link": 0, "kind": "fail", "restart": True}, "restart is for a host that f"),
        ({"at": 1, "host": 0, "kind": "repair", "restart": True}, "restart is for a host that"),
        ({"at": 1, "host": 0, "kind": "fail", "restart": 1}, "restart must be true or false"),
    ])
    def test_refused(self, event, message):
        with pytest.raises(InputError, match=message):
            finish(once(1), events=[event])

    def test_of_several_events_the_wrong_one_is_numbered(self):
        good = {"at": 1, "kind": "fail", "link": 0}
        with pytest.raises(InputError, match=r"^events\[1\]: event: kind must be one of degrade, "
                           r"fail, repair, not 'fial' \(did you mean 'fail'\?\)$"):
            finish(once(1), events=[good, good | {"kind": "fial"}])
        with pytest.raises(InputError, match=r"^events\[2\]: .* has no host 4"):
            finish(once(1), events=[good, FaultEvent(2, "egress-0", "4Mbps"),
                                    FaultEvent(1, host=4, kind="fail")])


class TestFiles:

    TABLES: ClassVar = {"network": {"kind": "big-switch", "hosts": 128},
                        "workload": {"name": "parrot-60"}}

    def test_events_and_stragglers_are_kept_as_they_were_said(self):
        """A link's capacity is written as it always was; hosts of stragglers are strings."""
        events = [{"at": 1.0, "link": "egress-3", "capacity": 1e6},
                  {"at": 2.0, "host": 3, "kind": "fail", "restart": True}]
        experiment = netsim.Experiment(**self.TABLES, events=events, stragglers={3: 2})
        assert experiment.arguments["events"] == events
        assert experiment.arguments["stragglers"] == {3: 2.0}
        resolved = experiment.resolved()
        assert (resolved["events"], resolved["stragglers"]) == (events, {"3": 2.0})
        assert netsim.Experiment(**resolved).resolved() == resolved
        assert "stragglers" not in netsim.Experiment(**self.TABLES).resolved()

    @pytest.mark.parametrize(("tables", "problem"), [
        ({"events": [{"at": 1, "host": 128, "kind": "fail"}]}, "events.0.host: network 'big-swit"),
        ({"events": [{"at": 1, "host": 1, "kind": "fial"}]}, "events.0: kind must be one of deg"),
        ({"events": [{"at": 1, "host": 1.5, "kind": "fail"}]}, "events.0.host: "),
        ({"stragglers": {"3": 0.5}}, "stragglers: the factor of host 3 must be a finite number"),
        ({"stragglers": {"128": 2}}, "stragglers.128: there is no host 128; there are 128"),
        ({"stragglers": {"x": 2}}, "stragglers.x: network 'big-switch' has no host 'x'"),
        ({"stragglers": [2]}, "stragglers: must be a table of hosts and factors, not"),
    ])
    def test_what_is_wrong_is_said_with_its_key(self, tables, problem):
        with pytest.raises(netsim.SpecError) as error:
            netsim.Experiment(**self.TABLES | tables)
        assert [each.startswith(problem) for each in error.value.problems] == [True], error.value

    def test_a_file_is_run_swept_and_read_again(self, tmp_path):
        """One job of 1 s and 1 MB on a port of 1 MB/s, on slow hosts, and with a failure of 1 s."""
        path = tmp_path / "mine.toml"
        (tmp_path / "case.json").write_text(
            '{"jobs": [{"arrival_s": 0, "coflows": [[{"src": 0, "dst": 1, "bytes": 1e6}]]}]}')
        path.write_text("""
            [network]
            kind = "big-switch"
            hosts = 2
            capacity = 1e6
            [workload]
            file = "case.json"
            [[events]]
            at = "500ms"
            kind = "fail"
            link = "egress-0"
            [[events]]
            at = "1.5s"
            kind = "repair"
            link = "egress-0"
            [stragglers]
            1 = 2.0
            """)
        result = netsim.run(path)
        assert result.jobs["finish_s"].tolist() == [2]
        again = netsim.run(result.save(tmp_path / "run") / "spec.toml")
        assert again.jobs.equals(result.jobs)
        found = netsim.sweep_experiment(path, {
            "stragglers.1": [1.5, 2.0], "events": [[], [{"at": 0.5, "link": 0, "factor": 0.5}]]})
        assert found.table["jct_total_s"].tolist() == [1, 1.5, 1, 1.5]

    def test_calls_are_swept(self):
        jobs = [JobSpec(0, stages=[Stage("send", [(0, 1, MB)], compute_s=1)], hosts=(0, 1))]
        found = netsim.sweep({"net": NET}, netsim.Workload(jobs),
                             stragglers={"none": {}, "one": {0: 2}},
                             events={"none": [], "failure": fail(1, 2, link=0)})
        assert found.table["jct_total_s"].tolist() == [2, 3, 3, 3]
        fixed = netsim.sweep(NET, netsim.Workload(jobs), stragglers={0: 2}, seed=[0, 1],
                             events=fail(1, 2, link=0))
        assert fixed.table["jct_total_s"].tolist() == [3, 3]

    @pytest.mark.parametrize("cluster", [
        netsim.Cluster(2, 1, "8Mbps"),
        netsim.Cluster(gpus=1, topology=netsim.leaf_spine(2, 1, 1, "8Mbps"), nic="8Mbps")])
    def test_servers_of_a_cluster_have_names(self, cluster):
        """As those of stragglers: the job goes on at 2 s, on the other one."""
        job = JobSpec(0, ranks=1, compute_s=1, iterations=4, pattern="ring-all-reduce", nbytes=1)
        first, again = ([{"at": 2.0, "kind": "fail", "host": name, "restart": True}]
                        for name in (0, "server-0"))
        runs = [netsim.simulate(cluster, [job], scheduler="fifo", events=events)
                for events in (first, again)]
        assert runs[0].jobs["restarts"].tolist() == [1]
        assert runs[1].jobs.equals(runs[0].jobs)
        with pytest.raises(InputError, match=r"no server 'server-2' .*; it has 2, numbered from 0"):
            netsim.simulate(cluster, [job], events=[{**first[0], "host": "server-2"}])
