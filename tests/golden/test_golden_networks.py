"""Networks and flows of other simulators: facts of real files, and small files with their facts."""

import json
import os
import warnings
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import netsim
from netsim.errors import NetsimWarning, TraceError
from netsim.network import read_nccl_server
from tests.pairs import smallest

DATA = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
RTOL = 1e-9


def facts_in(case):
    """Yield the path of each real file that is there, and its facts."""
    facts = json.loads(case.read_text())
    found = {DATA / name: expected for name, expected in facts.items() if (DATA / name).exists()}
    if not found:
        pytest.skip("the real files are not there")
    return [(path, found[path]) for path in smallest(found)]


def small(traces_cases_case, group, *suffixes):
    """Return the small cases of some kinds of files."""
    return [each for each in json.loads(traces_cases_case.read_text())[group]
            if each["name"].endswith(suffixes)]


def latency_s(network, src, dst):
    """Return the latency of the path between two hosts."""
    ptr, links = network.routes(*np.array([[src], [dst], [0]]))
    return network.wire.latency_of(ptr, links)[0]


def check_tiers(network, expected):
    """Compare a network of a .topo file with the facts; each link counts in both directions."""
    ends = [name.replace("->", " ").split() for name in network.link_names]
    kinds = Counter(tuple(node.split("-")[0] for node in pair) for pair in ends)
    for start, end, what in (("host", "tor", "links_host_tor"), ("tor", "agg", "links_tor_agg"),
                             ("agg", "core", "links_agg_core")):
        assert kinds[start, end] == kinds[end, start] == expected[what]
        if expected[what]:
            tier = ("host", "tor", "agg").index(start)
            rates = {network.capacity[k] * 8 / 1e9 for k, pair in enumerate(ends)
                     if pair[0].startswith(start) and pair[1].startswith(end)}
            assert rates == {expected["gbps"][tier]}
    nodes = Counter(node.split("-")[0] for node in network.nodes)
    assert [network.hosts, *(nodes[each] for each in ("tor", "agg", "core"))] == [
        expected[each] for each in ("nodes", "tors", "aggs", "cores")]
    assert network.links == 2 * expected["links"]
    places = {"same_tor": 1, "same_pod": network.hosts // expected["pods"] - 1,
              "other_pod": network.hosts - 1}
    for what, latency in expected["one_way_latency_ns"].items():
        assert latency_s(network, 0, places[what]) == pytest.approx(latency * 1e-9, rel=RTOL)
    below, above = (sum(network.capacity[k] for k, pair in enumerate(ends)
                        if (pair[0].startswith(start), pair[1].startswith(end)) == (True, True))
                    for start, end in (("host", "tor"), ("tor", "agg")))
    assert above / below == expected["tor_up_over_down"]


def test_htsim_networks(traces_htsim_topo_case):
    for path, expected in facts_in(traces_htsim_topo_case):
        check_tiers(netsim.read_network(path), expected)


def test_small_htsim_networks(traces_cases_case, tmp_path):
    for case in small(traces_cases_case, "good", ".topo"):
        path = tmp_path / case["name"]
        path.write_text(case["text"])
        check_tiers(netsim.read_network(path), case["expect"])


def test_htsim_flows(traces_htsim_cm_case):
    for path, expected in facts_in(traces_htsim_cm_case):
        workload = netsim.read_workload(path)
        stages = [(job, stage) for job in workload for stage in job.stages]
        flows = [stage.flows for _, stage in stages]
        assert len(stages) == expected["connections"] == expected["connections_that_start"]
        sizes = Counter(str(int(each.nbytes[0])) for each in flows)
        assert sizes == expected["sizes"]
        assert sum(each.nbytes[0] for each in flows) == expected["bytes"]
        starts = Counter(str((job.arrival_s + stage.release_s) * 1e12)
                         for job, stage in stages if not stage.after)
        assert starts == expected["starts_ps"]
        assert sum(bool(stage.after) for _, stage in stages) == expected["started_by_trigger"]
        src, dst = np.array([(each.src[0], each.dst[0]) for each in flows]).T
        assert np.bincount(src).max() == expected["max_out_degree"]
        assert np.bincount(dst).max() == expected["max_in_degree"]
        assert (src == dst).sum() == expected["self"]
        assert max(map(longest_chain, workload)) == expected["longest_trigger_chain"]


def longest_chain(job):
    length = {}
    for stage in job.stages:  # those that others wait for come first in these files
        length[stage.name] = 1 + max((length[each] for each in stage.after), default=0)
    return max(length.values())


def test_hpcc_networks(traces_hpcc_case):
    for path, expected in facts_in(traces_hpcc_case):
        if "nodes" not in expected:
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            network = netsim.read_network(path)
        assert len(caught) == bool(expected["text_after_links"])
        assert (network.hosts, len(network.nodes), network.links) == (
            expected["hosts"], expected["nodes"], 2 * expected["links"])
        kinds, degree = Counter(), Counter()
        for k, name in enumerate(network.link_names):
            start, end = (node.split("-")[0] for node in name.split("->"))
            degree[name.split("->")[0]] += 1
            if (start, end) != ("switch", "host"):
                kinds[f"{start} - {end}", network.capacity[k] * 8 / 1e9,
                      round(network.wire.latency[k] * 1e9, 6)] += 1
        expected_kinds = {tuple(each[:3]): each[3] * (2 if each[0] == "switch - switch" else 1)
                          for each in expected["kinds"]}
        assert kinds == expected_kinds
        for kind, what in (("host", "host_degree"), ("switch", "switch_degree")):
            found = Counter(str(count) for node, count in degree.items() if node.startswith(kind))
            assert found == expected[what]
        assert network.capacity.sum() * 8e-9 / 2 == pytest.approx(expected["sum_gbps_one_way"],
                                                                  rel=RTOL)


@pytest.mark.filterwarnings("ignore::netsim.errors.NetsimWarning")
def test_hpcc_flows(traces_hpcc_case):
    for path, expected in facts_in(traces_hpcc_case):
        if "flows" not in expected:
            continue
        workload = netsim.read_workload(path, format="hpcc", topology="topology.txt")
        network = netsim.read_network(path.parent / "topology.txt")
        found = [{"src": network.nodes[job.stages[0].flows.src[0]],
                  "dst": network.nodes[job.stages[0].flows.dst[0]],
                  "bytes": job.stages[0].flows.nbytes[0], "start_s": job.arrival_s}
                 for job in workload]
        assert found == [{"src": f"host-{each['src']}", "dst": f"host-{each['dst']}",
                          "bytes": each["bytes"], "start_s": each["start_s"]}
                         for each in expected["flows"]]
        with pytest.warns(NetsimWarning, match=str(
                expected["well_formed_lines_after_the_count_ignored"])):
            netsim.read_workload(path, format="hpcc", topology="topology.txt")


def test_nccl_servers(traces_nccl_topo_case):
    for path, expected in facts_in(traces_nccl_topo_case):
        server = read_nccl_server(path)
        assert server.version == expected["version"]
        assert [{"numa": int(cpu.name.removeprefix("numa")), "arch": cpu.arch,
                 "vendor": cpu.vendor} for cpu in server.cpus] == expected["cpus"]
        devices = server.devices
        assert Counter(each.kind for each in devices) == expected["devices"]
        rates = Counter(f"{each.kind} {each.rate / 1e9 if each.speed_given else None}"
                        for each in devices)
        assert rates == expected["pcie_GBps"]
        assert sum(each.speed_given for each in devices) == expected["speed_given"]
        for kind in ("gpu", "nic"):
            assert Counter(each.cpu.removeprefix("numa")
                           for each in server.of_kind(kind)) == expected[f"{kind}s_per_numa"]
        switches = {each.parent for each in server.of_kind("nic")} - {
            cpu.name for cpu in server.cpus}
        assert sum(each.parent in switches for each in server.of_kind("gpu")) == expected[
            "gpus_sharing_a_switch_with_a_nic"]
        assert {each.busid: each.rank for each in devices if each.rank is not None
                } == expected["ranks"]
        assert (list(server.links), list(server.nets)) == (expected["links"], expected["nets"])
        assert [[each.busid, each.kind, each.parent] for each in devices] == expected["tree"]


#: Words that the errors must have, as the cases say them in other words.
SAID = {"count.cm": "2 connections announced, 1 found", "start.cm": "neither start nor trigger",
        "node.cm": "node 4 .* 4 nodes", "token.cm": "unknown token 'bytes'",
        "radix.topo": "Radix_Up 3 against 4 aggregation", "podsize.topo": "Podsize is missing",
        "twice.topo": "Radix_Down twice for tier 1", "flow.txt": "2 flows announced, 1 found",
        "twice-busid.xml": "busid 'a' .*twice"}


def test_bad_files(traces_cases_case, tmp_path):
    read = {".topo": netsim.read_network, ".cm": netsim.read_workload, ".xml": netsim.read_network,
            ".txt": lambda path: netsim.read_workload(path, format="hpcc")}
    cases = [each for each in small(traces_cases_case, "bad", *read)
             if each["name"] in SAID]
    assert len(cases) == len(SAID)
    for case in cases:
        path = tmp_path / case["name"]
        path.write_text(case["text"])
        with pytest.raises(TraceError, match=SAID[path.name]) as caught:
            read[path.suffix](path)
        assert str(path) in str(caught.value)


def test_paths_of_a_network_in_tiers_stay_in_their_pod(traces_htsim_topo_case):
    for path, expected in facts_in(traces_htsim_topo_case):
        network = netsim.read_network(path)
        rng = np.random.default_rng(0)
        src, dst = rng.integers(network.hosts, size=(2, 50))
        ptr, _ = network.routes(src, dst, np.arange(50))
        per_pod = network.hosts // expected["pods"]
        for k, (first, stop) in enumerate(pairwise(ptr)):
            hops = 0 if src[k] == dst[k] else 2 if (
                src[k] // (network.hosts // expected["tors"])
                == dst[k] // (network.hosts // expected["tors"])) else 4 if (
                src[k] // per_pod == dst[k] // per_pod) else 6
            assert stop - first == hops
