"""Coflows as SimPy events: what processes wait for, take back, change and look at."""

import math

import numpy as np
import pandas as pd
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

import netsim
from tests.pairs import few, some

MB = 1e6
ALL = ("jobs", "coflows", "flows", "links", "decisions")


@pytest.fixture
def env():
    return simpy.Environment()


@pytest.fixture
def fabric(env):
    """Four hosts, ports of 1 MB/s."""
    return netsim.Fabric(env, netsim.big_switch(4, MB), record=ALL)


class TestEvents:
    def test_a_value_says_when(self, env, fabric):
        """3 MB at 1 MB/s, from 2 s on."""
        def sender():
            yield env.timeout(2)
            return (yield fabric.transfer(0, 1, "3MB"))

        done = env.run(env.process(sender()))
        assert done == (0, 2.0, 2.0, 5.0, 3.0, 3 * MB)
        assert (done.finish_s, done.cct_s, done.bytes) == (5.0, 3.0, 3 * MB)

    def test_one_of_several_and_all_of_them(self, env, fabric):
        """Two of 1 and 2 MB from one port: 1 MB each until 2 s, then 1 MB until 3 s."""
        def sender():
            short, long = fabric.transfer(0, 1, MB), fabric.transfer(0, 2, 2 * MB)
            got = yield short | long
            assert short in got
            assert long not in got
            assert env.now == 2
            got = yield short & long
            assert env.now == 3
            assert got[long].cct_s == 3

        env.run(env.process(sender()))

    def test_resources_queue_and_computation_overlaps(self, env, fabric):
        """Two workers share a GPU for 1 s each, then send 1 MB: 2 s and 3 s."""
        gpu, ends = simpy.Resource(env, 1), []

        def worker(host):
            with gpu.request() as turn:
                yield turn
                yield env.timeout(1)
            ends.append((yield fabric.transfer(host, 3, MB)).finish_s)

        for host in (0, 1):
            env.process(worker(host))
        env.run()
        assert ends == [2.0, 3.0]

    def test_an_interrupt_leaves_the_coflow_alone(self, env, fabric):
        def sender():
            push = fabric.transfer(0, 1, 3 * MB)
            try:
                yield push
            except simpy.Interrupt:
                assert env.now == 1
            yield push
            assert env.now == 3

        process = env.process(sender())

        def other():
            yield env.timeout(1)
            process.interrupt()

        env.process(other())
        env.run(process)

    def test_two_fabrics_in_one_environment(self, env):
        """Over a slow one and a fast one, one after the other: 2 s and 1 s."""
        slow = netsim.Fabric(env, netsim.big_switch(2, MB), allocator="parrot")
        fast = netsim.Fabric(env, netsim.big_switch(2, 2 * MB), allocator="sebf")

        def sender():
            yield slow.transfer(0, 1, 2 * MB)
            yield fast.transfer(0, 1, 2 * MB)

        env.run(env.process(sender()))
        assert env.now == 3
        assert slow.result().coflows["finish_s"].tolist() == [2.0]
        assert fast.result().coflows["finish_s"].tolist() == [3.0]

    def test_in_real_time(self):
        env = simpy.rt.RealtimeEnvironment(factor=0.001, strict=False)
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB))
        env.run(fabric.transfer(0, 1, 2 * MB))
        assert env.now == 2

    def test_what_is_submitted_at_one_instant_shares_a_decision(self, env, fabric):
        for host in (0, 1, 2):
            env.process(iter_once(fabric.transfer, host, 3, MB))
        env.run()
        decisions = fabric.result().decisions
        assert decisions["time_s"].tolist() == [0.0]
        assert decisions["coflows"].tolist() == [3]

    def test_a_coflow_without_bytes_ends_at_once(self, env, fabric):
        done = env.run(fabric.coflow([(0, 1, 0)]))
        assert (done.cct_s, done.bytes) == (0.0, 0.0)
        assert env.run(fabric.coflow([])).bytes == 0

    def test_an_observe_interval(self, env):
        """2.5 MB end at 2.5 s, which is noticed at 3 s."""
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB), observe_interval="1s")
        done = env.run(fabric.transfer(0, 1, 2.5 * MB))
        assert (env.now, done.finish_s, done.cct_s) == (3.0, 2.5, 2.5)

    def test_it_may_begin_later(self):
        env = simpy.Environment(100)
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB))
        assert env.run(fabric.transfer(0, 1, MB)).finish_s == 101


def iter_once(submit, *args):
    """A process that submits one coflow."""
    yield submit(*args)


class TestFlows:
    @pytest.mark.parametrize("flows", [
        [(0, 1, "1MB"), (2, 1, MB)], netsim.Flows([0, 2], [1, 1], [MB, MB]),
        np.array([[0, 1, MB], [2, 1, MB]]), ((s, 1, MB) for s in (0, 2)),
        pd.DataFrame({"src": [0, 2], "dst": [1, 1], "nbytes": [MB, MB]})])
    def test_each_way_to_give_them(self, env, fabric, flows):
        assert env.run(fabric.coflow(flows, name="push")).bytes == 2 * MB
        assert env.now == 2
        table = fabric.result().flows
        assert table["src"].tolist() == [0, 2]

    def test_flows_that_come_again_are_routed_once(self, env, fabric):
        flows = netsim.Flows([0], [1], [MB])
        one, other = fabric.coflow(flows), fabric.coflow(flows)
        assert one.demand is other.demand

    @pytest.mark.parametrize(("flows", "message"), [
        ([(0, 9, 1)], "host 9 is out of range"), ([(0, 1, -1)], "flow 0 has -1.0 bytes"),
        ([(0, 1)], "must be a list of tuples"), (np.zeros((2, 2)), r"shape \(flows, 3\)"),
        (pd.DataFrame({"src": [0], "dst": [1]}), "no column 'nbytes'"),
        ([(0, 1, 1), (-1, 1, 1)], "flow 1 goes from host -1 to host 1"),
        ([(0, 1, 1), (0.5, 1, 1)], r"whole numbers, but src\[1\] is 0.5"),
        ([(0, 1, "1 parsec")], "parsec")])
    def test_bad_ones(self, fabric, flows, message):
        with pytest.raises(netsim.InputError, match=message):
            fabric.coflow(flows)

    def test_nothing_is_left_of_what_is_refused(self, env, fabric):
        with pytest.raises(netsim.InputError):
            fabric.coflow([(0, 9, 1)])
        with pytest.raises(netsim.InputError, match="deadline"):
            fabric.transfer(0, 1, 1, deadline_s=-1)
        for weight in (0, [1]):
            with pytest.raises(netsim.InputError, match="weight"):
                fabric.coflow(netsim.Flows([0], [1], [1.0]), weight=weight)
        for args in ({"communication_s": -1}, {"hosts": 3}, {"hosts": [9]}):
            with pytest.raises(netsim.InputError, match=r"communication_s|host"):
                fabric.job("a", **args)
        assert len(fabric.result().jobs) == 0


class TestCancel:
    def test_what_was_sent_stays_sent(self, env, fabric):
        """Two share a port until 1 s; then the other is alone: 0.5 + 1.5 MB, at 2.5 s."""
        def sender():
            push, other = fabric.transfer(0, 1, 4 * MB), fabric.transfer(0, 2, 2 * MB)
            yield env.timeout(1)
            assert push.cancel() == 3.5 * MB
            assert push.cancel() == 0
            assert (yield other).finish_s == 2.5
            assert other.cancel() == 0

        env.run(env.process(sender()))
        result = fabric.result()
        assert result.coflows["finish_s"].isna().tolist() == [True, False]
        assert result.links["bytes"].sum() == pytest.approx(2 * 2.5 * MB)

    def test_whoever_waits_is_told(self, env, fabric):
        push = fabric.transfer(0, 1, 4 * MB)

        def waits():
            with pytest.raises(netsim.Cancelled, match="was cancelled at 1 s") as caught:
                yield push
            assert caught.value.left == 3 * MB

        process = env.process(waits())
        env.run(until=1)
        push.cancel()
        env.run(process)

    def test_nobody_need_wait(self, env, fabric):
        push = fabric.transfer(0, 1, 4 * MB)
        env.run(until=1)
        push.cancel()
        env.run()

    def test_what_has_been_sent_and_not_noticed_is_complete(self, env):
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB), observe_interval=10)
        push = fabric.transfer(0, 1, MB)
        env.run(until=5)
        assert push.cancel() == 0
        assert env.run(push).finish_s == 1

    def test_a_condition_that_nobody_waits_for_any_more(self, env, fabric):
        """An interrupted process takes back both of what it waited for."""
        def sender():
            both = fabric.transfer(0, 1, 2 * MB), fabric.transfer(1, 2, MB)
            try:
                yield (both[0] & both[1]) | env.timeout(10)
            except simpy.Interrupt:
                assert [coflow.cancel() for coflow in both] == [1.5 * MB, 0.5 * MB]

        process = env.process(sender())
        env.run(until=0.5)
        process.interrupt()
        env.run()
        assert process.ok

    def test_what_ends_as_it_is_cancelled_is_no_more_in_the_way_of_its_job(self, env, fabric):
        """1 MB takes the 1 s that the process waits: all is sent, and not noticed yet."""
        def sender():
            job = fabric.job("a")
            push = fabric.transfer(0, 1, MB, job=job)
            got = yield push | env.timeout(1)
            assert push in got or push.cancel() == 0
            job.end()

        env.run(env.process(sender()))
        env.run()
        assert fabric.result().coflows["finish_s"].tolist() == [1.0]

    def test_a_coflow_without_a_job_has_ended_when_it_is_cancelled(self, env, fabric):
        fabric.fail(host=3)
        fabric.transfer(0, 3, MB)
        fabric.transfer(0, 1, MB).cancel()
        env.run()
        result = fabric.result()
        assert result.run["stopped_at_s"] is None
        assert result.jobs["finish_s"].isna().all()

    @pytest.mark.parametrize("event", [lambda push: push, lambda push: push | push.env.timeout(9)])
    def test_a_process_of_another_environment_is_named(self, env, fabric, event):
        other = simpy.Environment()
        push = fabric.transfer(0, 1, MB)
        other.process(iter_once(lambda: event(push)))
        other.run()
        with pytest.raises(netsim.InputError, match=r"iter_once.* in another environment"):
            env.run()

    @given(st.integers(0, 2**32 - 1))
    def test_bytes_are_conserved(self, seed):
        """Links carry what was sent of each coflow, cancelled or not."""
        rng = np.random.default_rng(seed)
        env = simpy.Environment()
        allocator = str(rng.choice(["maxmin", "parrot", "sebf", "aalo", "coflow-fair"]))
        fabric = netsim.Fabric(env, netsim.big_switch(4, MB), allocator=allocator, record=ALL)
        sent = []

        def sender():
            yield env.timeout(rng.uniform(0, 3))
            src, dst = rng.choice(4, 2, replace=False)
            push = fabric.transfer(src, dst, rng.uniform(0.1, 3) * MB)
            got = yield push | env.timeout(rng.uniform(0.5, 3))
            sent.append(push.nbytes - (0.0 if push in got else push.cancel()))

        for _ in range(8):
            env.process(sender())
        env.run()
        result = fabric.result()
        done = result.coflows.loc[result.coflows["finish_s"].notna(), "bytes"].sum()
        assert result.links["bytes"].sum() == pytest.approx(2 * sum(sent))
        assert result.other_coflows["bytes"].sum() + done == pytest.approx(sum(sent))

    def test_what_a_cancelled_coflow_has_sent_is_recorded(self, env, fabric, tmp_path):
        """3 of 5 MB in 3 s; a further one to a lost host sends nothing."""
        push = fabric.transfer(0, 1, 5 * MB, name="push")
        env.run(3)
        push.cancel()
        fabric.fail(host=3)
        fabric.transfer(0, 3, MB)
        for result in (fabric.result(), netsim.load_result(fabric.result().save(tmp_path))):
            assert result.other_coflows[["coflow", "stage", "end_s", "bytes", "why"]].values.tolist(
                ) == [[0, "push", 3.0, 3 * MB, "withdrawn"],
                      [1, "transfer", 3.0, 0.0, "withdrawn"]]


class TestJobs:
    def test_coflows_of_a_job_count_together(self, env):
        """Least attained service first: the job that has sent 1 MB waits for the new one."""
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB), allocator="aalo-lbsf")
        ends = {}

        def training(name, start, count):
            yield env.timeout(start)
            job = fabric.job(name)
            for _ in range(count):
                yield fabric.transfer(0, 1, MB, job=job)
            job.end()
            ends[name] = env.now

        env.process(training("old", 0, 2))
        env.process(training("new", 1, 1))
        env.run()
        assert ends == {"new": 2.0, "old": 3.0}
        jobs = fabric.result().jobs
        assert jobs["name"].tolist() == ["old", "new"]
        assert jobs["jct_s"].tolist() == [3.0, 1.0]
        assert jobs["bytes"].tolist() == [2 * MB, MB]

    def test_a_coflow_without_one_is_a_job_of_its_own(self, env, fabric):
        env.run(fabric.transfer(0, 1, MB) & fabric.transfer(2, 3, MB))
        jobs = fabric.result().jobs
        assert jobs["finish_s"].tolist() == [1.0, 1.0]
        assert fabric.result().run["stopped_at_s"] is None

    def test_a_job_that_has_ended_submits_no_more(self, env, fabric):
        job = fabric.job("a")
        fabric.transfer(0, 1, MB, job=job)
        with pytest.raises(netsim.InputError, match="cannot end: <Coflow 0 'transfer' of 'a'>"):
            job.end()
        env.run()
        job.end()
        for refused in (job.end, lambda: fabric.transfer(0, 1, 1, job=job)):
            with pytest.raises(netsim.InputError, match="job 'a' has ended at 1 s"):
                refused()

    def test_jobs_of_others_are_refused(self, env, fabric):
        other = netsim.Fabric(env, netsim.big_switch(2, MB))
        with pytest.raises(netsim.InputError, match="job 'b' is of another fabric"):
            fabric.transfer(0, 1, 1, job=other.job("b"))
        with pytest.raises(netsim.InputError, match="must be one that fabric"):
            fabric.transfer(0, 1, 1, job="b")

    def test_policies_that_know_more_are_told(self, env):
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB), allocator="srpt")
        with pytest.raises(netsim.InputError, match="communication_s"):
            fabric.job("a")
        job = fabric.job("a", communication_s="2s")
        assert fabric.view().jobs == 0
        env.run(fabric.transfer(0, 1, 2 * MB, job=job))

    @pytest.mark.parametrize("hosts", [[0, 1], np.array([0, 1]), range(2)])
    def test_policies_are_told_where_jobs_run(self, env, hosts):
        fabric = netsim.Fabric(env, netsim.big_switch(2, MB),
                               allocator="ring-contention:count=running")
        with pytest.raises(netsim.InputError, match="give hosts"):
            fabric.job("a")
        job = fabric.job("a", hosts=hosts)
        assert fabric.view().running().host.tolist() == [0, 1]
        assert env.run(fabric.transfer(0, 1, MB, job=job)).bytes == MB
        job.end()
        assert len(fabric.view().running().job) == 0
        env.run(fabric.transfer(0, 1, MB))  # which runs where its flow does, until it ends
        assert len(fabric.view().running().job) == 0

    def test_many_come_one_by_one(self, env, fabric):
        def sender():
            for _ in range(200):
                yield fabric.transfer(0, 1, MB)

        env.run(env.process(sender()))
        assert env.now == pytest.approx(200)
        assert fabric.result().jobs["arrival_s"].is_monotonic_increasing


class TestLinksAndHosts:
    def test_a_link_that_degrades_fails_and_is_repaired(self, env, fabric):
        """1 MB until 1 s, half of one until 2, none until 3, 1.5 MB until 4.5."""
        push = fabric.transfer(0, 1, 3 * MB)
        env.run(until=1)
        fabric.set_capacity("egress-0", "4Mbps")
        env.run(until=2)
        fabric.fail(link="egress-0")
        env.run(until=3)
        assert fabric.links().set_index("link").loc["egress-0", "rate"] == 0
        fabric.repair(link="egress-0")
        assert env.run(push).finish_s == 4.5
        assert fabric.result().links["bytes"].sum() == pytest.approx(2 * 3 * MB)

    def test_coflows_of_a_lost_host_fail(self, env, fabric):
        def sender(dst):
            try:
                return (yield fabric.transfer(0, dst, 2 * MB)).finish_s
            except netsim.Cancelled as error:
                return error.left

        lost, kept = env.process(sender(1)), env.process(sender(2))
        env.run(until=2)
        fabric.fail(host=1)
        assert env.run(lost) == MB
        assert env.run(kept) == 3
        assert env.run(env.process(sender(1))) == 2 * MB  # it is lost still
        fabric.repair(host=1)
        assert env.run(env.process(sender(1))) == 5

    def test_a_server_that_is_lost_is_all_of_its_gpus(self, env):
        """Coflows that reach server 1, or stay inside, fail; one on server 0 does not."""
        fabric = netsim.Fabric(env, netsim.gpu_cluster(2, 2, nvlink=MB, nic=MB))
        ends = (("gpu-0.0", "gpu-1.0"), ("gpu-1.0", "gpu-1.1"), ("gpu-0.0", "gpu-0.1"))
        crossing, inside, kept = (fabric.transfer(*pair, 2 * MB) for pair in ends)
        env.run(until=1)
        fabric.fail(host="server-1")
        for lost in (crossing, inside):
            with pytest.raises(netsim.Cancelled, match="host server-1 was lost"):
                env.run(lost)
        assert env.run(kept).finish_s == 2
        with pytest.raises(netsim.Cancelled, match="which is lost"):
            env.run(fabric.transfer("gpu-0.1", "gpu-1.1", MB))
        fabric.repair(host="server-1")
        assert env.run(fabric.transfer("gpu-0.1", "gpu-1.1", MB)).finish_s == 3

    def test_flows_avoid_dead_links(self, env):
        """On a ring of four, from 0 to 1: the other way round while the short one is dead."""
        fabric = netsim.Fabric(env, netsim.ring(4, MB), record=ALL)
        push = fabric.transfer(0, 1, 4 * MB)
        env.run(until=1)
        fabric.fail(link="host-0->host-1")
        env.run(until=2)
        fabric.repair(link="host-0->host-1")
        assert env.run(push).finish_s == 4
        carried = fabric.result().links.groupby("link", observed=True)["bytes"].sum()
        assert carried["host-0->host-1"] == 3 * MB
        assert carried["host-2->host-1"] == MB

    @pytest.mark.parametrize(("what", "message"), [
        ({"link": "egress-9"}, "has no link 'egress-9'"), ({"host": 7}, "has no host 7"),
        ({"switch": "spine-0"}, "has no switch 'spine-0'"), ({}, "^{}: give one of link, host"),
        ({"link": 0, "host": 0}, "^{}: give one of link, host and switch")])
    def test_what_there_is_not(self, fabric, what, message):
        for change in (fabric.fail, fabric.repair):
            with pytest.raises(netsim.InputError, match=message.format(change.__name__)):
                change(**what)
        with pytest.raises(netsim.InputError, match="capacity"):
            fabric.set_capacity(0, "-1Gbps")


class TestLooking:
    @pytest.mark.parametrize("allocator", few(["maxmin", "parrot", "sebf", "aalo", "coflow-fair",
                                               "maxmin:decisions=coflow"], 3))
    def test_it_changes_nothing(self, allocator):
        """Looked at several times per second or never: the same bytes of coflows."""
        tables, pause_s = [], some((0.1, 0.4), 1, of=2)[0]
        for looks in (False, True):
            env = simpy.Environment()
            fabric = netsim.Fabric(env, netsim.big_switch(4, MB), allocator=allocator)
            rng = np.random.default_rng(1)

            def sender(rng=rng, env=env, fabric=fabric):
                for _ in range(5):
                    yield env.timeout(rng.uniform(0, 1))
                    src, dst = rng.choice(4, 2, replace=False)
                    yield fabric.transfer(src, dst, rng.uniform(0.1, 3) * MB)

            senders = [env.process(sender()) for _ in range(4)]

            def watcher(looks=looks, env=env, fabric=fabric, senders=senders, pause_s=pause_s):
                while any(each.is_alive for each in senders):
                    yield env.timeout(pause_s)
                    if looks:
                        for table in (fabric.active(), fabric.flows()):
                            assert (table["left_bytes"] > 0).all()
                        assert (fabric.links()["utilisation"] <= 1 + 1e-9).all()
                        assert len(fabric.view()) >= len(fabric.active())
                        fabric.result()

            env.process(watcher())
            env.run()
            tables.append(fabric.result().coflows)
        assert len(tables[0]) == 20
        pd.testing.assert_frame_equal(*tables, check_exact=True)

    def test_what_is_left_and_how_fast(self, env, fabric):
        """Two flows to port 3 at half of 1 MB/s each, one to port 2 at as much as is left."""
        fabric.coflow([(0, 3, 4 * MB), (1, 3, 4 * MB)], name="push")
        env.run(until=2)
        fabric.transfer(0, 2, MB)
        env.run(until=3)
        active = fabric.active()
        assert active["stage"].tolist() == ["push", "transfer"]
        assert active["left_bytes"].tolist() == [5 * MB, 0.5 * MB]
        assert active["rate"].tolist() == [MB, 0.5 * MB]
        assert active["gamma_s"].tolist() == [5.0, 0.5]
        assert fabric.flows()["rate"].tolist() == [0.5 * MB] * 3
        links = fabric.links().set_index("link")
        assert links["rate"][["egress-0", "ingress-3", "ingress-2"]].tolist() == [MB, MB, MB / 2]
        assert links["flows"][["egress-0", "ingress-3", "ingress-2"]].tolist() == [2, 2, 1]

    def test_what_is_submitted_now_is_there_without_a_rate(self, env, fabric):
        fabric.transfer(0, 1, MB)
        assert fabric.active()["rate"].tolist() == [0.0]
        assert fabric.flows()["left_bytes"].tolist() == [MB]
        assert len(fabric.view()) == 1
        env.run(until=0.5)
        assert fabric.result().coflows["start_s"].tolist() == [0.0]
        assert fabric.result().jobs["start_s"].tolist() == [0.0]

    def test_a_result_at_any_time(self, env, fabric, tmp_path):
        fabric.transfer(0, 1, MB)
        fabric.transfer(0, 2, 3 * MB)
        assert fabric.result().coflows["finish_s"].isna().all()
        env.run(until=3)
        result, again = fabric.result(), fabric.result()
        assert result.run["simpy_events"] == again.run["simpy_events"] > 0
        assert result.coflows["finish_s"].isna().tolist() == [False, True]
        assert result.coflows["cct_s"].tolist()[0] == 2.0
        assert result.summary()["stopped_at_s"] == 3
        again = netsim.load_result(result.save(tmp_path / "run"))
        pd.testing.assert_frame_equal(again.coflows, result.coflows, check_categorical=False)
        env.run()
        assert fabric.result().coflows["finish_s"].tolist() == [2.0, 4.0]

    def test_between_two_steps_by_hand(self, env, fabric):
        """Bytes are moved until all have been sent at 4 s, while the clock says 0."""
        push = fabric.coflow([(0, 2, MB), (0, 3, 3 * MB)])
        env.timeout(10)
        while env.peek() < 1:
            env.step()
        for act in (fabric.active, fabric.view, push.cancel, lambda: fabric.fail(host=0),
                    lambda: fabric.transfer(0, 1, 1)):
            with pytest.raises(netsim.InputError, match=r"between two calls of env.step\(\)"):
                act()
        assert env.run(push).finish_s == env.now == 4
        assert len(fabric.active()) == 0


class TestArguments:
    @pytest.mark.parametrize(("args", "message"), [
        ({"env": None}, "env must be a simpy.Environment"),
        ({"network": 3}, "network must be a Topology"),
        ({"allocator": "maximin"}, "maxmin"), ({"record": ["coflow"]}, "coflows"),
        ({"observe_interval": -1}, "observe_interval"), ({"seed": -1}, "seed")])
    def test_bad_ones(self, env, args, message):
        given = {"env": env, "network": netsim.big_switch(2, MB)} | args
        with pytest.raises(netsim.InputError, match=message):
            netsim.Fabric(given.pop("env"), given.pop("network"), **given)

    def test_a_policy_of_ones_own_that_overloads_a_link_is_named(self, env):
        class Greedy(netsim.Allocator):
            def allocate(self, view):
                return netsim.Allocation(rates=np.full(view.flows, 2 * MB))

        fabric = netsim.Fabric(env, netsim.big_switch(2, MB), allocator=Greedy)
        fabric.transfer(0, 1, MB)
        with pytest.raises(netsim.AllocationError, match="Greedy"):
            env.run()

    def test_one_that_gives_nothing_stalls(self, env):
        class Nothing(netsim.Allocator):
            def allocate(self, view):
                return netsim.Allocation(rates=np.zeros(view.flows))

        fabric = netsim.Fabric(env, netsim.big_switch(2, MB), allocator=Nothing)
        with pytest.raises((netsim.StalledError, RuntimeError)):
            env.run(fabric.transfer(0, 1, MB))


def test_what_there_is_not_cannot_be_set():
    fabric = netsim.Fabric(simpy.Environment(), netsim.big_switch(2, MB))
    with pytest.raises(AttributeError, match="alocator"):
        fabric.alocator = "sebf"


def test_a_bound_that_is_not_known_is_not_zero(tmp_path):
    env = simpy.Environment()
    fabric = netsim.Fabric(env, netsim.big_switch(2, MB))
    fabric.transfer(0, 1, MB)
    assert fabric.result().summary()["lower_bound_total_s"] == 0, "no job has ended"
    env.run()
    result = fabric.result()
    assert math.isnan(result.summary()["lower_bound_total_s"])
    result.save(tmp_path / "r")
    assert math.isnan(netsim.load_result(tmp_path / "r").summary()["lower_bound_total_s"])


def test_coflows_that_wait_for_ever_are_told(env):
    """Of 4 MB, 1 MB are sent when the link fails, and no event is left to repair it."""
    fabric = netsim.Fabric(env, netsim.big_switch(2, MB))
    fabric.transfer(0, 1, 4 * MB, name="push")
    env.run(1)
    fabric.fail(link="ingress-1")
    env.run()
    with pytest.warns(netsim.NetsimWarning, match=r"coflows wait for bandwidth: 0 'push'; dead "
                                                  r"links: 'ingress-1'"):
        fabric.result()


def test_an_argument_that_needs_its_name_is_told(env):
    fabric = netsim.Fabric(env, netsim.big_switch(2, MB))
    with pytest.raises(netsim.InputError, match=r"'ingress-1' needs the name of its argument, one "
                                                r"of link=, host=, switch="):
        fabric.fail("ingress-1")
