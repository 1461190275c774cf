"""Names of hosts wherever a number is, and in tables."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import simpy

import netsim
from netsim import InputError, JobSpec, Stage, Workload
from netsim.studies.convert import explicit

NET = netsim.leaf_spine(2, 2, 4, "8Mbps")
XML = """<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
<pci busid="0000:00:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
<pci busid="0000:01:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
<pci busid="0000:02:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
</pci></cpu></system>"""
PUSH = [Stage("push", [(0, 1, 1e6)], compute_s=1)]


def job(*hosts, **more):
    return JobSpec(0, hosts=hosts, stages=PUSH, **more)


def test_a_job_by_name_is_one_by_number():
    """Also in parts, and the tables say both."""
    runs = [netsim.simulate(NET, [job(*hosts)], record=["coflows", "flows"])
            for hosts in ((1, 6), ("host-1", "host-6"), (1, "host-6"))]
    for table in ("jobs", "coflows", "flows"):
        assert all(getattr(run, table).equals(getattr(runs[0], table)) for run in runs)
    assert runs[1].flows[["src", "dst", "src_name", "dst_name"]].iloc[0].tolist() == [
        1, 6, "host-1", "host-6"]


def test_names_are_columns_only_where_hosts_have_names(tmp_path):
    """Not on a big switch; nor where the nodes of a graph are named as they are numbered."""
    ring = netsim.from_networkx(netsim.ring(4).to_networkx(), hosts=[f"host-{k}" for k in (2, 0)])
    assert ring.host_names == ("host-2", "host-0")
    assert (netsim.big_switch(8).host_names, len(NET.host_names)) == ((), 8)
    plain = netsim.simulate(netsim.big_switch(8), [job(0, 1)], record=["flows"])
    assert "src_name" not in plain.flows
    named = netsim.simulate(ring, [job("host-0", "host-2")], record=["flows"])
    assert named.flows[["src", "src_name"]].iloc[0].tolist() == [1, "host-0"]
    named.save(tmp_path / "run")
    assert netsim.load_result(tmp_path / "run").flows.equals(named.flows)


@pytest.mark.parametrize(("hosts", "message"), [
    (("host-1", "hots-6"), r"^job 0: network 'leaf-spine' has no host 'hots-6' \(did you mean "
     r"'host-6' or "),
    (("host-1", "leaf-0"), "^job 0: .* has no host 'leaf-0', which is a switch; it has 8"),
    (("host-1", 8), "^job 0: .* has no host 8; it has 8, numbered from 0 and named such as"),
    ((1, 8), "^job 0: host 8 is out of range"), (("host-1", -1), "^job 0: hosts must be whole "),
    ("host-1", "^job 0: hosts must be a list of names or numbers, not 'host-1'")])
def test_hosts_that_there_are_not(hosts, message):
    with pytest.raises(InputError, match=message):
        netsim.simulate(NET, [JobSpec(0, hosts=hosts, stages=PUSH)])


def test_near_names_of_links():
    with pytest.raises(InputError, match=r"'host-0>leaf-0' \(did you mean 'host-0->leaf-0'"):
        NET.link("host-0>leaf-0")


def test_bounds_stragglers_and_submitted_jobs():
    """Computation of 1 s on a host that is 3 times as slow, then 1 s to send."""
    slow = netsim.simulate(NET, [job("host-1", "host-6")], stragglers={"host-1": 3.0})
    assert slow.jobs["finish_s"][0] == pytest.approx(4)
    with pytest.raises(InputError, match=r"^stragglers: .* no host 'host-9' \(did you mean 'host-"):
        netsim.simulate(NET, [job(0, 1)], stragglers={"host-9": 3.0})
    assert netsim.lower_bounds(NET, Workload([job("host-1", "host-6")])).coflows[
        "finish_s"][0] == pytest.approx(2)
    sim = netsim.Simulation(NET, [job(0, 5)], record=["flows"]).run(until=1.5)
    assert sim.flows()[["src_name", "dst_name"]].iloc[0].tolist() == ["host-0", "host-5"]
    sim.submit(JobSpec(1, arrival_s=2, hosts=["host-1", "host-6"], stages=PUSH))
    with pytest.raises(InputError, match=r"^job 2: .* no host 'host-77'"):
        sim.submit(JobSpec(2, arrival_s=2, hosts=["host-1", "host-77"], stages=PUSH))
    assert sim.run().result().flows["src_name"].tolist() == ["host-0", "host-1"]


def test_servers_of_a_cluster_by_name():
    """A ring inside server-1 computes twice as long."""
    net = netsim.gpu_cluster(2, 2)
    jobs = [JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=1, compute_s=1) for k in (0, 1)]
    done = netsim.simulate(net, jobs, execution="fabric", stragglers={"server-1": 2.0})
    assert done.jobs["jct_s"].round(6).tolist() == [1, 2]
    with pytest.raises(InputError, match=r"no server 'server-2' \(did you mean 'server-1' or"):
        netsim.simulate(net, jobs, execution="fabric", stragglers={"server-2": 2.0})


def test_a_server_stands_for_all_of_its_gpus_where_these_are_the_hosts():
    """Both GPUs of server-1 compute 1 s twice as long."""
    net = netsim.gpu_cluster(2, 2)
    jobs = [JobSpec(k, hosts=[k, 4 - 1 - k], stages=[Stage("s", [(0, 1, 1)], compute_s=1.0)])
            for k in range(4)]
    done = netsim.simulate(net, jobs, stragglers={"server-1": 2.0})
    assert done.jobs["jct_s"].round(6).tolist() == [1, 1, 2, 2]
    with pytest.raises(InputError, match=r"no host 'server-7'.*its 2 servers are named such as"):
        netsim.simulate(net, jobs, stragglers={"server-7": 2.0})


@pytest.mark.parametrize("topology", [None, netsim.network.leaf_spine(2, 2, 1, "1Gbps")])
@pytest.mark.parametrize("name", [1, "server-1"])
def test_servers_that_are_hosts_by_name(topology, name):
    """The second of two jobs that compute 1 s is on server 1, which is twice as slow."""
    cluster = netsim.Cluster(gpus=[1, 1], topology=topology)
    jobs = [JobSpec(k, pattern="ring-all-reduce", ranks=1, nbytes=1, compute_s=1) for k in (0, 1)]
    done = netsim.simulate(cluster, jobs, execution="fabric", stragglers={name: 2.0})
    assert done.jobs["jct_s"].tolist() == [1, 2]


@pytest.mark.parametrize("make", [
    lambda src, dst: Workload.from_arrays(src, dst, 1e6),
    lambda src, dst: Workload.from_frame(pd.DataFrame({"from": src, "dst": dst, "bytes": 1e6}),
                                         src="from", start=None)])
def test_arrays_and_tables(make):
    """One coflow per job: they stay columns, and have the same numbers on the network."""
    named = make(np.array(["host-0", "host-3"]), ["host-5", "host-6"])
    mixed = make(["host-0", 3], [5, "host-6"])
    runs = [netsim.simulate(NET, each, record=["flows"]).flows
            for each in (named, mixed, make([0, 3], [5, 6]))]
    assert runs[0].equals(runs[1])
    assert runs[0].equals(runs[2])
    assert named[1].hosts == ("host-0", "host-3", "host-5", "host-6")
    assert named.to_frame()["dst"].tolist() == ["host-5", "host-6"]
    assert len(named[:1] + make([1], ["host-2"]).renumber(7)) == 2
    with pytest.raises(InputError, match=r"^job 1: .* has no host 'hst-3' \(did you mean 'host-3'"):
        netsim.simulate(NET, make(["host-0", "hst-3"], [5, 6]))
    with pytest.raises(InputError, match="of row 1 must be a name, or a whole number from 0 to"):
        make(["host-0", None], [5, 6])


def test_jobs_of_several_coflows_in_a_table():
    rows = pd.DataFrame({"src": ["host-0", "host-1"], "dst": "host-2", "bytes": 1e6,
                         "start_s": [0, 4], "coflow": [0, 1], "job": 0})
    done = netsim.simulate(NET, Workload.from_frame(rows, coflow="coflow", job="job"))
    assert done.jobs["finish_s"].tolist() == [5]


def test_files(tmp_path):
    """A table of flows and an instance, which is written and read again as it was."""
    (tmp_path / "flows.csv").write_text("src,dst,bytes\nhost-0,host-5,1MB\n3, host-6 ,1MB\n")
    flows = netsim.read_workload(tmp_path / "flows.csv")
    assert flows[1].hosts == ("host-0", 3, "host-5", "host-6")
    flow = {"src": "host-0", "dst": "host-5", "bytes": 1e6}
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [
        {"coflows": [[flow, {"src": 3, "dst": "host-0", "bytes": 2e6}]]},
        {"stages": [{"name": "a", "flows": [flow | {"src": "host-7"}]}]}]}))
    jobs = netsim.read_workload(tmp_path / "jobs.json")
    netsim.traces.write_instance(jobs, tmp_path / "again.json")
    again = netsim.read_workload(tmp_path / "again.json")
    for each in (jobs, again):
        table = netsim.simulate(NET, each, record=["flows"]).flows
        assert table["src"].tolist() == [0, 3, 7]
        assert table["dst"].tolist() == [5, 0, 5]
    with pytest.raises(InputError, match=r"^job 0 gives hosts by name, and this format has"):
        netsim.traces.write_coflow_benchmark(jobs, tmp_path / "ports.txt")
    placed = explicit(jobs, NET)
    assert placed[0].hosts == (0, 5, 3)


def test_flows_of_processes():
    """As tuples, arrays and tables; policies are told where a job runs."""
    env = simpy.Environment()
    fabric = netsim.Fabric(env, NET, record=["flows"])
    given = [[("host-0", "host-5", "1MB")], np.array([("host-0", 5, 1e6)], object),
             np.array([("host-0", "host-5", "1MB")]),
             pd.DataFrame({"src": ["host-0"], "dst": [5], "nbytes": ["1MB"]})]

    def send():
        yield fabric.transfer("host-0", "host-5", "1MB", job=fabric.job(hosts=["host-0", 5]))
        for each in given:
            yield fabric.coflow(each)

    env.run(env.process(send()))
    table = fabric.result().flows
    assert (table[["src", "dst"]] == [0, 5]).all(axis=None)
    assert len(table) == 5
    for flows in ([("hst-0", 1, 1)], [(0, "hst-0", 1)]):
        with pytest.raises(InputError, match=r"no host 'hst-0' \(did you mean 'host-0'"):
            fabric.coflow(flows)
    with pytest.raises(InputError, match="no host 'x'"):
        fabric.job(hosts=["x"])


def test_flows_of_stages_are_of_ranks():
    with pytest.raises(InputError, match="numbers of ranks, not of names such as 'host-0'"):
        Stage("push", [("host-0", "host-5", 1)])


def test_experiments_and_collectives():
    spec = {"network": {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 8},
            "workload": {"format": "synthetic", "jobs": 1, "iterations": 1, "length": "1MB"}}
    netsim.Experiment(**spec, stragglers={"host-1": 2.0})
    with pytest.raises(netsim.SpecError, match=r"stragglers.host-16: .* has no host 'host-16'"):
        netsim.Experiment(**spec, stragglers={"host-16": 2.0})
    by_name, by_number = (netsim.collective_times("all-reduce", NET, 2, "1MB", hosts=hosts)
                          for hosts in (["host-0", "host-5"], [0, 5]))
    assert by_name.equals(by_number)


def test_routes_and_failures_by_name():
    """The network without a link still knows the names of its hosts."""
    assert NET.route("host-0", "host-5").tolist() == NET.route(0, 5).tolist()
    done = netsim.simulate(NET, [job("host-1", "host-6")], record=["flows"],
                           events=[{"at": 1, "switch": "spine-0", "kind": "fail"}])
    assert done.flows["dst_name"].tolist() == ["host-6"]


class Pair(netsim.Topology):
    """Two hosts on a switch, as somebody's own class says; they have no names without a graph."""

    def __init__(self, **more):
        super().__init__("pair", 2, [1e6] * 4, ["a->s", "b->s", "s->a", "s->b"], **more)

    def routes(self, src, dst, key):
        return np.arange(0, 2 * len(src) + 1, 2), np.stack((src, 2 + dst), axis=1).ravel()


class NamedPair(Pair):
    def to_networkx(self):
        graph = nx.DiGraph()
        graph.add_nodes_from("ab", host=True)
        for link in self.link_names:
            graph.add_edge(*link.split("->"), name=link, capacity=1e6)
        return graph


def test_networks_of_ones_own_class():
    """Names are those of the nodes of the graph."""
    assert NamedPair().host_names == ("a", "b")
    assert NamedPair().links_of_switch("s").tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match=r"unknown switch of network 'pair' 'a'; choose from: s"):
        NamedPair().links_of_switch("a")
    done = netsim.simulate(NamedPair(), [job("b", "a")], record=["flows"])
    assert done.flows[["src", "src_name"]].iloc[0].tolist() == [1, "b"]
    assert Pair().host_names == ()
    assert netsim.simulate(Pair(), [job(1, 0)], record=["flows"]).flows["src"][0] == 1
    with pytest.raises(InputError, match=r"no host 'a'; it has 2, numbered from 0$"):
        netsim.simulate(Pair(), [job("a", "b")])


def test_gpus_of_nccl(tmp_path):
    """Of servers of NCCL's files: GPUs are hosts, and NICs are switches that fail."""
    (tmp_path / "server.xml").write_text(XML)
    net = netsim.read_network(tmp_path / "server.xml", servers=2, nvlink=0, nic="8Mbps")
    assert net.host_names == ("gpu-0.0", "gpu-1.0")
    done = netsim.simulate(net, [job("gpu-0.0", "gpu-1.0")], events=[
        {"at": "1.5s", "switch": "nic-1.0", "kind": "fail"},
        {"at": "4s", "switch": "nic-1.0", "kind": "repair"}])
    assert done.jobs["finish_s"][0] == pytest.approx(4.5)
