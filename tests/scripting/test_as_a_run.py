"""A fabric in a program is a run: it runs jobs, tells its events, and takes other policies."""

import numpy as np
import pandas as pd
import pytest
import simpy

import netsim

MB = 1e6
NET = netsim.big_switch(6, MB)
RING = netsim.ring(6, MB)
ALL = ("jobs", "coflows", "flows", "links", "decisions", "computations")

NEVER = [{"at": 1e9, "host": 0, "kind": "fail", "restart": True}]

PULL = [(0, 1, MB), (0, 2, 2 * MB)]
DAG = [netsim.Stage("a", [(0, 1, 2 * MB)], compute_s=0.3), netsim.Stage("b", [(1, 2, MB)]),
       netsim.Stage("c", [(0, 2, MB)], after=["a"]),
       netsim.Stage("d", [(2, 0, MB)], after=["a", "b"], compute_s=0.1)]
RANKED = [netsim.Stage("forward", ranks=(0, 1), compute_s=0.5),
          netsim.Stage("push", [(0, 1, MB)], after=["forward"]),
          netsim.Stage("step", ranks=(1,), compute_s=0.25, after=["push"])]
JOBS = {
    "ring": {"ranks": 4, "nbytes": 3 * MB, "pattern": "ring-all-reduce", "compute_s": 0.2},
    "placed": {"hosts": [4, 1, 3], "ranks": 3, "nbytes": 3 * MB, "pattern": "ring-all-reduce"},
    "redrawn": {"ranks": 3, "nbytes": 3 * MB, "redraw": True,
                "pattern": {"name": "all-to-all", "sizes": "uniform"}},
    "dag": {"ranks": 3, "stages": DAG},
    "ranked": {"ranks": 2, "stages": RANKED},
}


def scripted(network, *specs, seed=0, others=lambda env, fabric: None, **options):
    """Submit jobs to a fabric, and run it; return the fabric and the value of each job's event."""
    env = simpy.Environment()
    fabric = netsim.Fabric(env, network, seed=seed, **options)
    ends = [fabric.submit(spec) for spec in specs]
    others(env, fabric)
    return fabric, [env.run(end) for end in ends]


def assert_same(found, expected):
    """Compare tables without the ids, which each kind of run gives by itself."""
    tables = []
    for table in (found, expected[found.columns]):
        named = table.astype({name: str for name in table.columns[table.dtypes == "category"]})
        named = named.drop(columns={"job", "coflow"} & {*named})
        order = [name for name in ("valid_s", "start_s", "iteration", "rank", "stage", "flow")
                 if name in named]
        tables.append(named.sort_values(order, kind="stable", ignore_index=True))
    pd.testing.assert_frame_equal(*tables, check_exact=True)


class TestSubmittedJobs:
    @pytest.mark.parametrize(("network", "events"), [
        (NET, ()), (RING, ()), (netsim.big_switch(6, MB, latency="10ms", overhead="1ms"), NEVER)])
    @pytest.mark.parametrize("what", JOBS)
    def test_one_alone_runs_as_simulated(self, network, events, what):
        """To the last bit, in all tables, wherever its hosts and sizes are drawn from its id.

        Where bytes take time on their way, chains that the fabric runs by itself round otherwise
        than processes, of which an event that might stop jobs makes all.
        """
        spec = netsim.JobSpec(7, arrival_s=1.5, iterations=3, **JOBS[what])
        expected = netsim.simulate(network, netsim.Workload([spec], seed=3), seed=3, record=ALL,
                                   events=events)
        fabric, (done,) = scripted(network, spec, seed=3, record=ALL)
        found = fabric.result()
        assert len(found.coflows) == len(expected.coflows) > 0
        for name in ("jobs", "coflows", "flows", "computations"):
            assert_same(getattr(found, name), getattr(expected, name))
        assert done == tuple(found.jobs.loc[0, ["job", "arrival_s", "start_s", "finish_s",
                                                "jct_s", "bytes"]])

    @pytest.mark.parametrize("allocator", ["sebf", "aalo", "parrot", "srpt",
                                           "srpt:predictor=perfect",
                                           "ring-contention:count=running"])
    def test_several_run_as_simulated(self, allocator):
        """Under policies that know jobs and their future, too; the jobs arrive in order of ids."""
        specs = [netsim.JobSpec(k, arrival_s=0.7 * k, iterations=2, **JOBS["ring"])
                 for k in range(4)]
        expected = netsim.simulate(NET, specs, allocator=allocator, observe_interval="50ms")
        fabric, _ = scripted(NET, *specs, allocator=allocator, observe_interval="50ms")
        found = fabric.result()
        pd.testing.assert_frame_equal(found.jobs, expected.jobs, check_exact=True)
        assert_same(found.coflows, expected.coflows)

    def test_one_shares_links_with_coflows_of_the_user(self):
        """From 0 s, 2 MB of each at half of 1 MB/s: both end at 4 s; then 2 MB more."""
        spec = netsim.JobSpec(0, hosts=[0, 1], iterations=2,
                              stages=[netsim.Stage("push", [(0, 1, 2 * MB)])])
        found = []

        def others(env, fabric):
            found.append(fabric.transfer(0, 2, 2 * MB))

        fabric, (done,) = scripted(NET, spec, others=others)
        assert (found[0].value.finish_s, done.finish_s, done.bytes) == (4.0, 6.0, 4 * MB)
        table = fabric.result().coflows
        assert table[["coflow", "job", "iteration", "stage"]].values.tolist() == [
            [0, 0, 0, "push"], [1, 1, 0, "transfer"], [2, 0, 1, "push"]]

    def test_what_runs_is_there_with_what_it_has_sent(self):
        """1 of 4 MB at 1 s, after a first stage of 1 MB."""
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        fabric.submit(netsim.JobSpec(5, hosts=[0, 1], iterations=2, stages=[
            netsim.Stage("a", [(0, 1, MB)]), netsim.Stage("b", [(1, 0, 4 * MB)], after=["a"])]))
        fabric.submit(netsim.JobSpec(6, 9.0, hosts=[0, 1], stages=[netsim.Stage("a", PULL[:1])]))
        env.run(until=2)
        assert fabric.active()[["coflow", "stage", "left_bytes"]].values.tolist() == [
            [1, "b", 3 * MB]]
        result = fabric.result()
        assert result.coflows["finish_s"].fillna(-1).tolist() == [1.0, -1.0]
        assert result.coflows["start_s"].tolist() == [0.0, 1.0]
        assert result.jobs[["start_s", "coflows", "bytes"]].values.tolist() == [[0.0, 1, MB]]
        assert result.run["stopped_at_s"] == 2
        assert fabric.jobs()["state"].tolist() == ["running"]
        env.run()
        assert fabric.jobs()["state"].tolist() == ["done", "done"]
        assert fabric.result().run["stopped_at_s"] is None

    def test_one_waits_for_a_host_that_fails(self):
        """The user's coflow to the host fails; the job sends 1 MB before it, and 1 MB after."""
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        end = fabric.submit(netsim.JobSpec(0, hosts=[0, 1], stages=[
            netsim.Stage("push", [(0, 1, 2 * MB)])]))
        env.run(until=1)
        own = fabric.transfer(2, 1, MB)
        fabric.fail(host=1)
        env.run(until=3)
        assert own.cancelled
        fabric.repair(host=1)
        assert env.run(end).finish_s == 4

    def test_one_goes_round_a_link_that_fails(self):
        """From 0 to 1 on a ring of six, 1 MB on the short way, and 2 MB on the other."""
        env = simpy.Environment()
        fabric = netsim.Fabric(env, RING, record=ALL)
        end = fabric.submit(netsim.JobSpec(0, hosts=[0, 1], stages=[
            netsim.Stage("push", [(0, 1, 3 * MB)])]))
        env.run(until=1)
        fabric.fail(link="host-0->host-1")
        assert env.run(end).finish_s == 3
        carried = fabric.result().links.groupby("link", observed=True)["bytes"].sum()
        assert carried[["host-0->host-1", "host-2->host-1"]].tolist() == [MB, 2 * MB]

    def test_one_that_waits_for_ever_is_told(self):
        """Beside a coflow of the user's; nothing will repair their link."""
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        fabric.submit(netsim.JobSpec(0, hosts=[0, 1], stages=[netsim.Stage("push", PULL[:1])]))
        fabric.transfer(0, 2, MB)
        fabric.fail(link="egress-0")
        env.run()
        said = "wait for bandwidth: 0 'push', 1 'transfer'; dead links: 'egress-0'"
        with pytest.warns(netsim.NetsimWarning, match=said):
            result = fabric.result()
        assert result.jobs["finish_s"].isna().all()

    @pytest.mark.parametrize("pattern", ["ring-all-reduc", {"name": "all-reduce", "chunks": 0}, 3])
    def test_a_pattern_that_cannot_be_made_is_refused_at_once(self, pattern):
        """Not when the job arrives, in the middle of the program."""
        fabric = netsim.Fabric(simpy.Environment(), NET)
        with pytest.raises(netsim.InputError):
            fabric.submit(netsim.JobSpec(0, 1.0, pattern=pattern, ranks=3, nbytes=MB))
        fabric.transfer(0, 1, MB)

    def test_what_cannot_run_is_refused(self):
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        env.run(until=2)
        for job, message in ((3, "job must be a JobSpec, not 3"),
                             (netsim.JobSpec(4, 1.0, stages=DAG), "arrives at 1 s, and it is 2 s"),
                             (netsim.JobSpec(4, 2.0, hosts=[0, 1, 9], stages=DAG), "out of range")):
            with pytest.raises(netsim.InputError, match=message):
                fabric.submit(job)
        with pytest.raises(netsim.InputError, match=r"restart: jobs on a netsim\.Fabric"):
            fabric.fail(host=0, restart=True)
        assert len(fabric.jobs()) == 0
        assert (fabric.links()["capacity"] == MB).all(), "nothing has been changed"
        predicted = netsim.Fabric(env, NET, allocator="srpt:predictor=mean")
        with pytest.raises(netsim.InputError, match="no history to learn from"):
            predicted.submit(netsim.JobSpec(0, 2.0, ranks=3, stages=DAG))


class TestEvents:
    def test_each_kind_at_its_time(self):
        """A coflow of 1 MB from 1 s on, in a job until 3 s; a link changes at 1.5 s."""
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        heard = []
        for kind in ("job-arrived", "job-started", "job-done", "coflow-valid", "coflow-done",
                     "decision", "capacity"):
            fabric.on(kind, heard.append)

        def sender():
            yield env.timeout(1)
            job = fabric.job("a")
            yield fabric.transfer(0, 1, MB, job=job)
            yield env.timeout(1)
            job.end()

        env.process(sender())
        env.run(until=1.5)
        fabric.set_capacity("egress-0", 2 * MB)
        env.run()
        assert [(event.kind, event.at_s, event.job, event.coflow) for event in heard] == [
            ("job-arrived", 1.0, 0, None), ("coflow-valid", 1.0, 0, 0),
            ("decision", 1.0, None, None), ("job-started", 1.0, 0, None),
            ("capacity", 1.5, None, None), ("decision", 1.5, None, None),
            ("coflow-done", 2.0, 0, 0), ("job-done", 3.0, 0, None)]
        assert heard[4].link == "egress-0"

    @pytest.mark.parametrize("allocator", ["maxmin", "sebf", "parrot"])
    def test_a_submitted_job_has_those_of_a_simulation(self, allocator):
        specs = [netsim.JobSpec(k, arrival_s=0.5 * k, iterations=2, **JOBS[what])
                 for k, what in enumerate(("ring", "dag"))]
        kinds = ("job-arrived", "job-started", "job-done", "coflow-valid", "coflow-done")
        found, expected = [], []
        sim = netsim.Simulation(NET, specs, allocator=allocator)
        for kind in kinds:
            sim.on(kind, expected.append)
        sim.run()
        scripted(NET, *specs, allocator=allocator, others=lambda env, fabric: [
            fabric.on(kind, found.append) for kind in kinds])

        def told(events):
            return sorted((event.at_s, event.kind, event.job) for event in events)

        assert told(found) == told(
            event for event in expected if (event.kind, event.job) != ("job-arrived", 0)), \
            "the first arrives when it is submitted, before anyone listens"

    @pytest.mark.parametrize("allocator", ["maxmin", "sebf", "aalo", "parrot"])
    def test_listening_changes_nothing(self, allocator):
        def sender(env, fabric, rng):
            for _ in range(5):
                yield env.timeout(rng.uniform(0, 1))
                src, dst = rng.choice(6, 2, replace=False)
                yield fabric.transfer(src, dst, rng.uniform(0.1, 3) * MB)

        tables = []
        for listens in (False, True):
            env = simpy.Environment()
            fabric = netsim.Fabric(env, NET, allocator=allocator)
            if listens:
                fabric.on("decision", lambda event, fabric=fabric: fabric.active())
                fabric.on("coflow-done", lambda event, fabric=fabric: fabric.result())
            for seed in range(4):
                env.process(sender(env, fabric, np.random.default_rng(seed)))
            env.run()
            tables.append(fabric.result().coflows)
        assert len(tables[0]) == 20
        pd.testing.assert_frame_equal(*tables, check_exact=True)

    def test_a_listener_may_do_what_a_process_may(self):
        """It takes back the second coflow when the first is complete, at 2 s, and sends a third.

        Both have half of 1 MB/s; the third has all of it, and ends at 3 s.
        """
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        coflows = [fabric.transfer(0, k, k * MB) for k in (1, 2)]

        def listener(event):
            if event.coflow == 0:
                assert coflows[1].cancel() == MB
                coflows.append(fabric.transfer(0, 3, MB))

        fabric.on("coflow-done", listener)
        env.run()
        assert coflows[2].value.finish_s == 3
        assert fabric.jobs()["state"].tolist() == ["done", "cancelled", "done"]

    def test_an_error_in_a_listener_comes_out_and_closes_nothing(self):
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET)
        fabric.on("coflow-valid", lambda event: 1 / (event.at_s - 1))
        other = fabric.transfer(0, 2, 2 * MB)
        env.run(until=1)
        fabric.transfer(0, 1, MB)
        with pytest.raises(ZeroDivisionError):
            env.run()
        assert env.run(other).finish_s == 3

    def test_one_that_is_refused_is_not_called_later(self):
        """Between two steps of the clock a fabric refuses everything."""
        env, heard = simpy.Environment(), []
        fabric = netsim.Fabric(env, NET)
        fabric.submit(netsim.JobSpec(0, **JOBS["placed"]))
        env.step()
        with pytest.raises(netsim.InputError, match="between two calls of env"):
            fabric.on("job-done", heard.append)
        env.run()
        fabric.on("decision", lambda event: None)
        env.run(fabric.submit(netsim.JobSpec(1, env.now, **JOBS["placed"])))
        assert not heard

    def test_what_nothing_can_call_is_refused(self):
        fabric = netsim.Fabric(simpy.Environment(), NET)
        with pytest.raises(netsim.InputError, match="must be a function"):
            fabric.on("decision", 3)
        with pytest.raises(netsim.UnknownNameError, match="job-done"):
            fabric.on("job-ended", print)


class TestPolicies:
    @pytest.mark.parametrize(("before", "after"), [("maxmin", "sebf"), ("sebf", "aalo"),
                                                   ("parrot", "maxmin")])
    def test_another_takes_over_as_in_a_simulation(self, before, after):
        """At 1.3 s, with another interval, to the last bit."""
        specs = [netsim.JobSpec(k, arrival_s=0.4 * k, iterations=3, **JOBS["ring"])
                 for k in range(3)]
        sim = netsim.Simulation(NET, specs, allocator=before).run(until=1.3)
        env = simpy.Environment()
        fabric = netsim.Fabric(env, NET, allocator=before)
        for spec in specs:
            fabric.submit(spec)
        env.run(until=1.3)
        for run in (sim, fabric):
            run.allocator, run.observe_interval = after, "20ms"
            assert run.observe_interval == 0.02
        env.run()
        found, expected = fabric.result(), sim.run().result()
        pd.testing.assert_frame_equal(found.jobs, expected.jobs, check_exact=True)
        assert found.run["allocator"] == expected.run["allocator"]
        assert found.run["observe_interval"] == 0.02

    @pytest.mark.parametrize(("given", "message"), [
        ("srpt", "the fabric must begin under one that does"),
        ("ring-contention:count=running", "must begin under one that is"),
        ("lp-order", "plans for all jobs|one that does"), ("maximin", "maxmin")])
    def test_one_that_had_to_be_there_from_the_beginning_is_refused(self, given, message):
        fabric = netsim.Fabric(simpy.Environment(), NET)
        with pytest.raises(netsim.InputError, match=message):
            fabric.allocator = given
        with pytest.raises(netsim.InputError, match="observe_interval"):
            fabric.observe_interval = -1
        assert (fabric.allocator.title, fabric.observe_interval) == ("MaxMin", 0.0)
