"""Collectives of jobs that take from the network what they were not told."""

import numpy as np
import pytest

import netsim
from netsim import InputError, JobSpec
from netsim.collectives import auto, fastest
from netsim.jobs.fitting import costs_on, fitted, groups_on
from netsim.jobs.patterns import make_pattern
from netsim.jobs.plan import place_randomly
from netsim.studies.convert import explicit

NET = netsim.gpu_cluster(2, 4, nvlink="80GB/s", nic="80Gbps", latency="1us")
MB = 1e6


def job(algorithm, name="all-reduce", **more):
    given = {"ranks": 8, "nbytes": MB, "hosts": range(8), **more}
    pattern = {"name": name, "algorithm": algorithm, **given.pop("options", {})}
    return JobSpec(given.pop("id", 0), pattern=pattern, **given)


def run(jobs, network=NET, **more):
    return netsim.simulate(network, jobs, **more).jobs


def test_a_hierarchical_one_has_the_gpus_of_a_server_as_groups():
    """2(g-1)(S/(g Bn) + Ln) + 2(G-1)(S/(n Bx) + Lx): as with the group given, and as measured."""
    times = [run([job("hierarchical", options=options)])
             for options in ({}, {"group": 4})]
    assert times[0].equals(times[1])
    assert times[0]["algorithm"].tolist() == ["hierarchical:group=4"]
    assert times[0]["why"].tolist() == [""]
    assert times[0]["jct_s"][0] == pytest.approx(
        6 * (MB / 4 / 80e9 + 2e-6) + 2 * (MB / 8 / 10e9 + 4e-6))
    table = netsim.collective_times("all-reduce", NET, sizes=MB, algorithm="hierarchical")
    assert table["time_s"][0] == pytest.approx(times[0]["jct_s"][0])


@pytest.mark.parametrize(("rule", "choose"), [("auto", auto), ("fastest", fastest)])
@pytest.mark.parametrize("nbytes", [1e3, 1e10])
def test_rules_take_the_costs_of_the_network(rule, choose, nbytes):
    """They say why; the number of coflows is that of the algorithm."""
    chosen = choose("all-reduce", 8, nbytes, costs_on(NET, range(8), rule))
    found = run([job(rule, nbytes=nbytes)])
    assert found[["algorithm", "why"]].iloc[0].tolist() == [chosen.algorithm, chosen.why]
    same = run([job(chosen.algorithm, nbytes=nbytes)])
    assert found.drop(columns=["algorithm", "why"]).equals(same)


def test_where_nothing_was_chosen_no_table_says_so():
    assert "algorithm" not in run([job("ring")])
    mixed = run([job("ring"), job("auto", id=1), JobSpec(2, stages=[netsim.Stage("work", None, 1)],
                                                         ranks=1)])
    assert mixed["algorithm"].tolist()[::2] == ["", ""]
    assert mixed["algorithm"][1]


def test_a_job_without_hosts_knows_those_that_it_gets():
    """Of 8 GPUs in any order, the ranks of a server are a group, one after the other."""
    spec = fitted(job("hierarchical", hosts=None), NET, seed=3)
    assert spec.hosts is None
    assert spec.pattern.group == 4
    hosts = place_randomly(spec, NET, 3)
    assert (hosts[list(spec.pattern.order)] // 4).tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert run([job("hierarchical", hosts=None)], seed=3)["coflows"][0] == 8


def test_orders_that_are_given_stay():
    with pytest.raises(InputError, match="job 0: hierarchical: servers must have equally many"):
        run([job("hierarchical", options={"order": [0, 4, 1, 5, 2, 6, 3, 7]})])
    order = [3, 2, 1, 0, 4, 5, 6, 7]
    spec = fitted(job("hierarchical", options={"order": order}), NET)
    assert (spec.pattern.order, spec.pattern.group) == (tuple(order), 4)
    assert groups_on(NET, [4, 5, 0, 1], None) == {"group": 2, "order": [2, 3, 0, 1]}


@pytest.mark.parametrize(("spec", "network", "message"), [
    (job("hierarchical", ranks=5, hosts=range(5)), NET, r"not \[4, 1\] of the servers \[0, 1\]"),
    (job("hierarchical"), netsim.big_switch(8), "'big-switch' does not say which hosts are on one "
     "server, as netsim.gpu_cluster does; give group")])
def test_refused(spec, network, message):
    with pytest.raises(InputError, match=f"^job 0: hierarchical: .*{message}"):
        run([spec], network)


def test_without_a_network():
    """Which is an error when the messages are asked for."""
    for name, said in (("auto", "costs of auto are missing; without a network to take them from"),
                       ("hierarchical", "give group")):
        with pytest.raises(InputError, match=said):
            make_pattern({"name": "all-reduce", "algorithm": name}).stages(
                8, MB, np.random.default_rng(0))


@pytest.mark.parametrize("scheduler", ["fifo", "srtf"])
def test_on_clusters_as_if_on_the_first_gpus(scheduler):
    """Where the scheduler puts a job is not known before it has a number of coflows."""
    jobs = [job("hierarchical", hosts=None), job("auto", id=1, hosts=None, ranks=4),
            job("fastest", id=2, hosts=None)]
    found = run(jobs, scheduler=scheduler, execution="fabric")
    alone = auto("all-reduce", 4, MB, costs_on(NET, range(4), "auto"))
    assert found["algorithm"].tolist()[:2] == ["hierarchical:group=4", alone.algorithm]
    assert found["why"][1] == alone.why
    assert found["finish_s"].notna().all()


def test_on_servers_of_a_cluster():
    """Hosts are servers: inside, GPUs have `intra`."""
    cluster = netsim.Cluster(2, 4, nic="80Gbps", intra="80GB/s")
    found = run([job("hierarchical", hosts=None), job("auto", id=1, hosts=None, ranks=2)], cluster,
                execution="fabric")
    assert found["algorithm"][0] == "hierarchical:group=4"
    assert found["why"][1] == auto("all-reduce", 2, MB, costs_on(
        cluster.network, [0, 0], "auto", inside=80e9)).why
    sim = netsim.Simulation(cluster, [job("ring", hosts=None)], execution="fabric")
    sim.submit(job("hierarchical", id=1, hosts=None))
    assert sim.run().result().jobs["algorithm"].tolist() == ["", "hierarchical:group=4"]


@pytest.mark.parametrize("options", [{}, {"chunks": 3}])
def test_bounds_conversions_and_timelines_know_them(tmp_path, options):
    jobs = netsim.Workload([
        job("hierarchical", compute_s=1), job("auto", id=1, compute_s=2, options=options),
        job("auto", id=2, name="broadcast", compute_s=3, options=options)])
    result = netsim.simulate(NET, jobs, timeline=True)
    assert sorted(set(netsim.lower_bounds(NET, jobs).coflows["job"])) == [0, 1, 2]
    drawn = explicit(jobs, NET)
    assert netsim.simulate(NET, drawn).jobs["finish_s"].equals(result.jobs["finish_s"])
    netsim.write_timeline(result, tmp_path / "trace.json", workload=jobs)
    assert (tmp_path / "trace.json").read_text().count('"compute') >= 3
