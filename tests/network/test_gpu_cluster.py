"""Servers of GPUs: ways inside, on rails and across them; collectives on two levels; jobs."""

import numpy as np
import pytest

import netsim
from netsim.collectives import NcclCosts, auto
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.fitting import costs_on
from netsim.reproductions.accuracy import fitted
from netsim.schedulers.registry import SCHEDULERS
from netsim.testing import check_topology

#: Two servers of four GPUs.
SMALL = {"servers": 2, "gpus": 4, "nvlink": 8.0, "nic": 2.0}


def path(network, src, dst):
    return [network.link_names[link] for link in network.route(
        network.host(f"gpu-{src}"), network.host(f"gpu-{dst}"))]


@pytest.mark.parametrize(("options", "src", "dst", "expected"), [
    ({}, "0.1", "0.2", ["gpu-0.1->server-0", "server-0->gpu-0.2"]),
    ({}, "0.1", "1.1", ["gpu-0.1->nic-0.1", "nic-0.1->rail-1", "rail-1->nic-1.1",
                        "nic-1.1->gpu-1.1"]),
    ({"spine": 1}, "0.1", "1.2", ["gpu-0.1->nic-0.1", "nic-0.1->rail-1", "rail-1->spine-0",
                                  "spine-0->rail-2", "rail-2->nic-1.2", "nic-1.2->gpu-1.2"]),
    ({"spine": 3, "routing": "spray"}, "0.1", "1.2", [
        "gpu-0.1->nic-0.1", "nic-0.1->rail-1", "rail-1->spines", "spines->rail-2",
        "rail-2->nic-1.2", "nic-1.2->gpu-1.2"]),
    ({"across": "nvlink"}, "0.1", "1.2", [
        "gpu-0.1->server-0", "server-0->gpu-0.2", "gpu-0.2->nic-0.2", "nic-0.2->rail-2",
        "rail-2->nic-1.2", "nic-1.2->gpu-1.2"]),
    ({"rails": 1}, "0.1", "0.2", ["gpu-0.1->server-0", "server-0->gpu-0.2"]),
    ({"rails": 1}, "0.1", "1.2", ["gpu-0.1->nic-0.1", "nic-0.1->rail-0", "rail-0->nic-1.2",
                                  "nic-1.2->gpu-1.2"]),
    ({"gpus_per_nic": 2, "spine": 0}, "0.1", "1.2", [
        "gpu-0.1->server-0", "server-0->gpu-0.2", "gpu-0.2->nic-0.1", "nic-0.1->rail-1",
        "rail-1->nic-1.1", "nic-1.1->gpu-1.2"]),
    ({"gpus_per_nic": 4}, "0.1", "0.2", ["gpu-0.1->server-0", "server-0->gpu-0.2"]),
    ({"leaf": 1, "spine": 1}, "0.1", "1.1", [
        "gpu-0.1->nic-0.1", "nic-0.1->rail-1.0", "rail-1.0->spine-0", "spine-0->rail-1.1",
        "rail-1.1->nic-1.1", "nic-1.1->gpu-1.1"]),
])
def test_ways(options, src, dst, expected):
    network = netsim.gpu_cluster(**SMALL, **options)
    assert path(network, src, dst) == expected
    check_topology(network, symmetric=True)


def test_rates():
    network = netsim.gpu_cluster(**SMALL, gpus_per_nic=2, pcie=1.5, spine=2, oversubscription=2)
    rates = {kind: network.capacity[network.link(name)] for kind, name in (
        ("nvlink", "gpu-0.0->server-0"), ("pcie", "gpu-0.1->nic-0.0"), ("nic", "nic-0.1->rail-1"),
        ("up", "rail-1->spine-0"))}
    # A rail has a NIC of each of 2 servers: 4 bytes/s of NICs over 2 spines at 2:1.
    assert rates == {"nvlink": 8.0, "pcie": 1.5, "nic": 2.0, "up": 1.0}


@pytest.mark.parametrize(("options", "message"), [
    ({"gpus_per_nic": 3}, "gpus_per_nic must divide the number of gpus, 4, not be 3"),
    ({"rails": 3}, "rails must divide the number of NICs of a server, 4, not be 3"),
    ({"leaf": 3}, "leaf must divide the number of servers, 2, not be 3"),
    ({"across": "pxn"}, "unknown across 'pxn'; choose from: nvlink, spine"),
    ({"generation": "fermi"}, "unknown generation 'fermi'; choose from: ampere, hopper, volta"),
    ({"leaf": 1, "spine": 0}, "spine = 0 leaves the 2 switches of each rail disconnected")])
def test_errors(options, message):
    with pytest.raises(InputError, match=message):
        netsim.gpu_cluster(**SMALL, **options)


def time_s(network, algorithm, **options):
    return netsim.collective_times("all-reduce", network, sizes=1e9, algorithm=algorithm,
                                   **options)["time_s"][0]


@pytest.mark.parametrize("per_nic", [1, 2])
@pytest.mark.parametrize(("servers", "gpus"), [(2, 4), (4, 2)])
def test_two_levels(servers, gpus, per_nic):
    """Rings of G servers of g GPUs, n = G g, NVLink ports Bn and NICs Bx, latencies Ln and Lx.

    Flat, in the order of servers, one edge per server leaves it, and all steps take as long as it:

        2 (n - 1) (S/(n min(Bn, Bx)) + max(Ln, Lx))

    Hierarchical, with groups from the topology, g parts cross on g NICs at once, of which q GPUs
    share one, so that it has Bx/q for each:

        2 (g - 1) (S/(g Bn) + Ln) + 2 (G - 1) (S/(n Bx/q) + Lx)
    """
    fast, slow, lag, size, n = 400e9, 50e9, 1e-6, 1e9, servers * gpus
    network = netsim.gpu_cluster(servers, gpus, fast, slow, gpus_per_nic=per_nic, pcie="100GB/s",
                                 spine=2, routing="spray", latency={"*": lag, "*server-*": 2 * lag})
    inside, rail = 4 * lag, 4 * lag
    # From the last GPU of a server to the first of the next: over the spines, if on other rails.
    ring = 2 * (n - 1) * (size / (n * slow) + (6 if gpus > per_nic else 4) * lag)
    assert time_s(network, "ring") == pytest.approx(ring)
    assert time_s(network, "hierarchical") == pytest.approx(
        2 * (gpus - 1) * (size / (gpus * fast) + inside)
        + 2 * (servers - 1) * (size * per_nic / (n * slow) + rail))


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_rings_of_a_root_leave_servers_through_all_nics(collective):
    """2 servers of 4 with NVLink for free: k rings send S/k over each of k NICs of 1 GB/s."""
    network = netsim.gpu_cluster(2, 4, 1e30, 1e9, pcie=1e30, spine=0)
    for rings in (1, 2, 4):
        took = netsim.collective_times(collective, network, sizes=1e9, form="aggregate",
                                       rings=rings, root=1)["time_s"][0]
        assert took == pytest.approx(1 / rings)


def test_hierarchical_against_flat_where_nvlink_is_free():
    """Bytes over a NIC are (G - 1)/n of S against (n - 1)/n: the flat ring takes 15/3 as long."""
    network = netsim.gpu_cluster(4, 4, 1e30, 1e9, routing="spray")
    assert time_s(network, "ring") / time_s(network, "hierarchical") == pytest.approx(15 / 3)


def test_auto_knows_the_servers():
    """370 of 450 GB/s of NVLink on one server; on two the 4 NICs of each, at 0.94 of 50 GB/s."""
    network = netsim.gpu_cluster(2, 4, nvlink="450GB/s", nic="400Gbps", generation="ampere",
                                 profile={"*server-*": "nvlink4", "nic-*->rail-*": "ndr400"})
    one, two = (costs_on(network, range(n), "auto", None) for n in (4, 8))
    assert one == NcclCosts(450e9 * (370 / 450), servers=1, generation="ampere")
    assert two == NcclCosts(4 * 50e9 * 0.94, servers=2, generation="ampere")
    table = netsim.collective_times("all-reduce", network, 8, "1MB", algorithm="auto")
    assert table["algorithm"][0] == auto("all-reduce", 8, 1e6, two).algorithm
    assert costs_on(network, range(8), "fastest", None).rate == 50e9


def test_hierarchical_refuses_servers_with_unequal_ranks():
    network = netsim.gpu_cluster(**SMALL)
    with pytest.raises(InputError, match=r"equally many ranks, .*, not \[4, 1\] of the serv"):
        netsim.collective_times("all-reduce", network, 5, 1.0, algorithm="hierarchical")


JOBS = [netsim.JobSpec(k, pattern={"name": "all-reduce"}, ranks=ranks, nbytes=8.0, iterations=2)
        for k, ranks in enumerate((2, 4, 3))]


def test_it_is_a_cluster():
    """A ring of two ranks on one server takes 2 S/2 bytes at NVLink's rate per iteration."""
    network = netsim.gpu_cluster(**SMALL)
    result = netsim.simulate(network, JOBS, scheduler="fifo", placement="consolidated",
                             execution="fabric", record=("links", "coflows"))
    assert result.jobs["placement"].tolist() == ["0:2", "1:4", "0:3"]
    ring = [2 * 2 * (n - 1) * 8.0 / n / 8.0 for n in (2, 4, 3)]
    assert result.jobs["finish_s"].tolist() == pytest.approx(
        [ring[0], ring[1], ring[0] + ring[2]])
    assert {name.split("-")[0] for name in result.links["link"][result.links["bytes"] > 0]} == {
        "gpu", "server"}
    cluster = netsim.Cluster(topology=network)
    assert (cluster.servers, cluster.total, cluster.nic, cluster.intra) == (2, 8, 8.0, 8.0)
    with pytest.raises(InputError, match="servers of network 'gpu-cluster' have 4 GPUs each"):
        netsim.Cluster(gpus=8, topology=network)


def refusal(target, **policies):
    try:
        done = netsim.simulate(target, JOBS, placement=None, **policies)
    except InputError as error:
        return type(error)
    assert done.jobs["finish_s"].notna().all()
    return None


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_schedulers_run_where_they_do_on_servers(scheduler):
    policies = {"scheduler": scheduler, "execution": "fabric"}
    servers = netsim.Cluster(2, 4, nic=8.0, intra=8.0)
    for nvlink in (8.0, 4.0):  # more and less than all NICs of a server have
        network = netsim.gpu_cluster(**SMALL | {"nvlink": nvlink})
        assert refusal(network, **policies) == refusal(servers, **policies)


def test_in_an_experiment_file():
    """An empty [cluster] takes all from the network, and so does what is stored of it."""
    table = {"scheduler": "fifo", "execution": "fabric", "cluster": {},
             "network": {"kind": "gpu-cluster", **SMALL},
             "workload": {"format": "ring-jobs", "mix": {"2": 2}, "iterations": [1, 2]}}
    given = netsim.Experiment(**table)
    again = netsim.Experiment(**given.resolved())
    assert given.target.gpus.tolist() == again.target.gpus.tolist() == [4, 4]
    assert given.resolved()["cluster"]["nic"] == 8.0
    assert again.target.by_gpu


def test_parts_of_nics_are_refused():
    with pytest.raises(InputError, match="hosts of network 'gpu-cluster' are GPUs"):
        netsim.simulate(netsim.gpu_cluster(**SMALL), JOBS, scheduler="fifo", execution="fabric",
                        allocator="reserved:shares=gpus")


def test_a_server_that_fails_stops_its_jobs():
    """Two iterations of 1.5 s each begin again on server 1, when server 0 is lost after 1 s."""
    network = netsim.gpu_cluster(**SMALL)
    event = {"at": 1, "host": "server-0", "kind": "fail", "restart": True}
    result = netsim.simulate(network, JOBS[1:2], scheduler="fifo", placement="first-fit",
                             execution="fabric", events=[event])
    assert result.jobs["placement"].tolist() == ["1:4"]
    assert result.jobs["finish_s"][0] == pytest.approx(1 + 2 * 2 * 3 * 8.0 / 4 / 8.0)
    with pytest.raises(InputError, match=r"no host 'server-7'.*its 2 servers are named such as"):
        netsim.simulate(network, JOBS[:1], events=[{**event, "host": "server-7"}])


@pytest.mark.parametrize("options", [{}, {"scheduler": "fifo", "execution": "fabric"}])
def test_a_server_failed_by_hand_is_one_failed_by_events(options):
    """On a network, and as a cluster: its links carry nothing from 1 s to 4 s."""
    network = netsim.gpu_cluster(**SMALL)
    job = netsim.JobSpec(0, pattern={"name": "all-reduce"}, ranks=6, nbytes=8.0, iterations=2)
    events = [{"at": at, "host": "server-1", "kind": kind} for at, kind in ((1, "fail"),
                                                                            (4, "repair"))]
    told = netsim.simulate(network, [job], events=events, **options).jobs
    usual = netsim.simulate(network, [job], **options).jobs
    assert told["finish_s"][0] == pytest.approx(usual["finish_s"][0] + 3)
    sim = netsim.Simulation(network, [job], **options).run(until=1)
    sim.fail(host="server-1")
    sim.run(until=4).repair(host="server-1")
    assert sim.run().result().jobs["finish_s"][0] == pytest.approx(told["finish_s"][0])


@pytest.mark.parametrize(("event", "finish_s"), [
    # 8 bytes on rail 1 at 2 bytes/s; from t = 1 on, what is left goes another way, or waits.
    ({"switch": "nic-0.1", "kind": "fail"}, 4.0),
    ({"switch": "rail-1", "kind": "fail"}, 4.0),
    ({"link": "nic-0.1->rail-1", "factor": 0.5}, 7.0)])
def test_a_nic_or_a_rail_fails(event, finish_s):
    """By NVLink to another GPU of the server, and over its rail, as flows relay without spines."""
    network = netsim.gpu_cluster(**SMALL, spine=0)
    job = netsim.JobSpec(0, hosts=(1, 5), stages=[netsim.Stage("push", [(0, 1, 8.0)])])
    result = netsim.simulate(network, [job], allocator="maxmin", events=[{"at": 1, **event}])
    assert result.jobs["finish_s"][0] == pytest.approx(finish_s)
    assert np.isfinite(result.jobs["lower_bound_s"][0])


@pytest.mark.parametrize("options", [
    {}, {"gpus_per_nic": 2}, {"gpus_per_nic": 2, "rails": 1}, {"leaf": 2, "spine": 3},
    {"leaf": 2, "spine": 3, "across": "nvlink"}, {"spine": 0}, {"leaf": 2, "spine": 2, "rails": 2},
    {"leaf": 2, "spine": 3, "routing": "spray"}, {"leaf": 2, "spine": 3, "routing": "shortest"},
    {"gpus_per_nic": 4, "pcie": "100Gbps"}, {"loopback_uses_ports": True}])
def test_paths_are_those_of_a_search(options, monkeypatch):
    """For all pairs of GPUs, with the same choices among equal paths."""
    network = netsim.gpu_cluster(4, 4, **options)
    src, dst = (each.ravel() for each in np.indices((16, 16)))
    known = network.routes(src, dst, 7919 * np.arange(256))
    monkeypatch.setattr(network, "_paths", None)
    for one, other in zip(known, network.routes(src, dst, 7919 * np.arange(256)), strict=True):
        assert one.tolist() == other.tolist()


def test_links_as_measured() -> None:
    """They are those of the page on accuracy, and other options replace them."""
    found = fitted("accuracy-allreduce")
    latency, inside = found["all-reduce"]["latency_s"], found["all-reduce"]["efficiency"]
    net = netsim.gpu_cluster(2, links="h100", routing="spray")

    def takes(src: int, dst: int, **options: object) -> float:
        job = netsim.JobSpec(0, hosts=(src, dst), stages=[netsim.Stage("a", [(0, 1, 45e9)])])
        return netsim.simulate(net, [job], **options).jobs["jct_s"][0]

    assert takes(0, 1) == pytest.approx(0.1 / inside + latency, rel=1e-12)
    assert takes(0, 8) == pytest.approx(0.9 / found["across-servers"]["efficiency"] + latency,
                                        rel=1e-12)
    eight = netsim.collective_times("all-reduce", netsim.gpu_cluster(1, links="h100"), sizes=8)
    assert eight["time_s"][0] == pytest.approx(14 * (latency + 1 / (450e9 * inside)), rel=1e-9)
    own = netsim.gpu_cluster(2, links="h100", latency="1us", efficiency={"*server-*": 1})
    assert set(own.wire.latency) == {1e-6}
    assert set(own.wire.efficiency) == {1, found["across-servers"]["efficiency"]}
    with pytest.raises(UnknownNameError, match=r"unknown links 'h1000'.*from: h100"):
        netsim.gpu_cluster(2, links="h1000")
