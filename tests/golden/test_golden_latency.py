"""Worked cases of latency, overhead, packets and efficiency, against exact simulations."""

from __future__ import annotations

import json
import re

import networkx as nx
import numpy as np
import pytest

from netsim import JobSpec, Stage, Workload, lower_bounds, simulate
from netsim.network import Packet, Topology, Wire, big_switch, leaf_spine

RTOL = 1e-9


def value(given):
    return given["value"]


class GivenRoutes(Topology):
    """Links, and a route from each even host to the next one."""

    def __init__(self, links, routes, packet):
        by_name = {link["name"]: link for link in links}
        formats = {k: Packet(*link["packet"]) for k, link in enumerate(links) if "packet" in link}
        wire = Wire(len(links), [value(link["latency_s"]) for link in links],
                    [value(link["factor"]) for link in links], packet and Packet(*packet), formats)
        super().__init__("given", max(2 * len(routes), 1),
                         [value(link["capacity_bytes_per_s"]) for link in links], list(by_name),
                         wire=wire)
        self.given = [np.array([self.link(name) for name in route], np.int64) for route in routes]

    def routes(self, src, dst, key):
        found = [np.empty(0, np.int64) if a == b else self.given[a // 2]
                 for a, b in zip(src, dst, strict=True)]
        return (np.cumsum([0, *map(len, found)]),
                np.concatenate([np.empty(0, np.int64), *found]))


class Case:
    """A case in which each flow has hosts of its own."""

    def __init__(self, path):
        self.given = json.loads(path.read_text())
        self.given_routes = []
        self.jobs = [self.job(number, names) for number, names in enumerate(self.components())]
        self.network = GivenRoutes(self.given["links"], self.given_routes, self.given["packet"])

    def components(self):
        """Stages by job: connected by what they wait for."""
        joined = nx.Graph()
        for stage in self.given["stages"]:
            joined.add_node(stage["id"])
            joined.add_edges_from((stage["id"], parent) for parent in stage["after"])
        order = [stage["id"] for stage in self.given["stages"]]
        return sorted(nx.connected_components(joined), key=lambda ids: min(map(order.index, ids)))

    def job(self, number, names):
        own = [stage for stage in self.given["stages"] if stage["id"] in names]
        arrival = min(value(stage["arrival_s"]) for stage in own if not stage["after"])
        stages, first = [], 2 * len(self.given_routes)
        for stage in own:
            flows = [(*self.ranks(flow["route"], first), value(flow["bytes"]))
                     for flow in stage["flows"]]
            stages.append(Stage(
                stage["id"], flows, compute_s=value(stage["compute_s"]), after=stage["after"],
                release_s=0 if stage["after"] else value(stage["arrival_s"]) - arrival,
                overhead_s=value(stage["overhead_s"])))
        return JobSpec(number, arrival_s=arrival, stages=stages,
                       hosts=self.hosts_from(first))

    def hosts_from(self, first):
        return range(first, 2 * len(self.given_routes))

    def ranks(self, route, first):
        """Ranks of the hosts before and after a route; the same one for a free loopback."""
        self.given_routes.append(route)
        src = 2 * len(self.given_routes) - 2 - first
        return src, src + bool(route)

    def run(self, allocator="maxmin"):
        events = [{"at": value(event["at_s"]), "link": event["link"],
                   "capacity": value(event["capacity_bytes_per_s"])}
                  for event in self.given["events"]]
        return simulate(self.network, Workload(self.jobs), allocator=allocator, events=events,
                        observe_interval=value(self.given["observe_interval_s"]),
                        record=("coflows", "flows"))


class SprayedCase(Case):
    """A case on a leaf-spine whose hosts and trunks the routes name."""

    def __init__(self, path):
        self.given = json.loads(path.read_text())
        names = {name for link in self.given["links"] for name in link["name"].split("->")}
        members = {name: value(rate) for trunk in self.given["trunks"].values()
                   for name, rate in trunk.items()}
        spines = {name for member in members for name in member.split("->") if "spine" in name}
        hosts = [name for name in names if name.startswith("host")]
        leaves = len(names) - len(hosts) - 1
        links = {link["name"]: link for link in self.given["links"]}
        self.network = leaf_spine(
            leaves, len(spines), len(hosts) // leaves, routing="spray",
            capacity=value(links["host-0->leaf-0"]["capacity_bytes_per_s"]),
            uplink=members["leaf-0->spine-0"],
            latency={"*": value(links["leaf-0->spines"]["latency_s"]),
                     "*host-*": value(links["host-0->leaf-0"]["latency_s"])})
        self.given_routes = []
        self.jobs = [self.job(number, names) for number, names in enumerate(self.components())]

    def hosts_from(self, first):
        return range(self.network.hosts)

    def ranks(self, route, first):
        return tuple(int(re.search(r"host-(\d+)", route[end])[1]) for end in (0, -1))


@pytest.fixture
def case(latency_case):
    if latency_case.stem == "host_fails_in_flight":
        pytest.skip("has a test of its own")
    return (SprayedCase if latency_case.stem.startswith("spray") else Case)(latency_case)


def near(values):
    return pytest.approx(values, rel=RTOL, abs=1e-15)


def test_instants(case):
    result = case.run()
    coflows = result.coflows.set_index("stage")
    flows = result.flows.set_index("coflow")
    for stage in case.given["expect"]["stages"]:
        row = coflows.loc[stage["id"]]
        for name in ("valid_s", "begin_s", "sent_s", "finish_s", "gamma_s"):
            assert row[name] == near(value(stage[name])), name
        sent = flows[flows.index == row["coflow"]]
        told = [flow for flow, given in zip(stage["flows"], flows_of(case, stage), strict=True)
                if value(given["bytes"]) and given["route"]]
        for name in ("wire_bytes", "sent_s", "finish_s"):
            assert sent[name].tolist() == near([value(flow[name]) for flow in told])
    assert result.jobs["finish_s"].max() == near(value(case.given["expect"]["makespan_s"]))


def flows_of(case, stage):
    return next(given["flows"] for given in case.given["stages"] if given["id"] == stage["id"])


def test_trunks(latency_spray_case):
    case = SprayedCase(latency_spray_case)
    for link in case.given["links"]:
        number = case.network.link(link["name"])
        assert case.network.capacity[number] == near(value(link["capacity_bytes_per_s"]))
        assert case.network.wire.latency[number] == near(value(link["latency_s"]))
    for flow in (flow for stage in case.given["stages"] for flow in stage["flows"]):
        path = case.network.route(*case.ranks(flow["route"], 0))
        assert [case.network.link_names[link] for link in path] == flow["route"]


def test_bounds(case):
    told = [stage for stage in case.given["expect"]["stages"] if "lower_bound_s" in stage]
    if not told:
        pytest.skip("with events or observation there are none")
    found = lower_bounds(case.network, Workload(case.jobs)).coflows.set_index("stage")
    for stage in told:
        assert found.loc[stage["id"], "gamma_s"] == near(value(stage["lower_bound_s"]))
        assert found.loc[stage["id"], "finish_s"] == near(value(stage["dag_bound_s"]))
    jobs = case.run().jobs
    assert (jobs["finish_s"] - jobs["arrival_s"] >= jobs["lower_bound_s"] * (1 - RTOL)).all()


def test_a_host_fails_while_bytes_are_under_way(latency_host_case):
    given = json.loads(latency_host_case.read_text())
    network = big_switch(2, 1e6)
    network.wire = Wire(network.links, latency=value(given["latency_s"]) / 2)
    nbytes = 1e6 * value(given["transfer_s"])
    job = JobSpec(0, hosts=(0, 1), stages=[Stage("push", [(0, 1, nbytes)])])
    for told in given["results"]:
        events = [{"at": value(told["fail_s"]), "host": 0, "kind": "fail",
                   "restart": told["restart"]},
                  {"at": value(told["repair_s"]), "host": 0, "kind": "repair"}]
        result = simulate(network, Workload([job]), allocator="maxmin", events=events)
        assert result.jobs["finish_s"][0] == near(value(told["job_finish_s"])), told["what"]
