"""Traces of training: facts of real files, and small files with theirs."""

import json
import os
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import netsim
from netsim.collectives import read_msccl
from netsim.errors import TraceError
from netsim.jobs.longest_path import longest_path
from netsim.traces.training.chakra import COLLECTIVES
from netsim.traces.training.chakra_file import NODE_TYPES, read_chakra_file, read_chakra_json
from netsim.traces.training.kineto import NcclKernels
from netsim.traces.training.kineto_events import graph_of, read_kineto_file
from netsim.workload.operations import Operations
from tests.pairs import exhaustive, smallest
from tests.traces.kineto_ends import ends_ns

DATA = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
RTOL = 1e-9
COMMUNICATES = ("coll", "send", "recv")

#: What the facts call the collectives.
NAMES = [name.upper().replace("-", "_") for name in COLLECTIVES]
NAMES[8] = "REDUCE_SCATTER_BLOCK"

pytestmark = pytest.mark.filterwarnings("ignore::netsim.errors.NetsimWarning")


def facts_in(case, tmp_path):
    """Yield the path of each real file that is there, and its facts; members of archives too."""
    found = {}
    for name, expected in json.loads(case.read_text()).items():
        archive, _, member = name.partition("!")
        path = DATA / archive
        if path.exists() and member:
            with tarfile.open(path) as tar:
                tar.extract(member, tmp_path, filter="data")
            path = tmp_path / member
        if path.exists():
            found[path] = expected
    if not found:
        pytest.skip("the real files are not there")
    return [(path, found[path]) for path in smallest(found)]


# --- files of Chakra, node by node --------------------------------------------------------------


def metadata_of(file):
    if file.is_json:
        return dict(file.attributes)
    shown = {name: each.value for name, each in file.attributes.items()}
    return {"version": file.version, "attr": {
        name: f"{len(value)} characters" if isinstance(value, str) and len(value) > 200 else value
        for name, value in shown.items()}}


def counts_of(file):
    """Facts of the nodes of a file."""
    nodes, known = file.nodes, {node.id for node in file.nodes}
    kinds = Counter(node.kind for node in nodes)
    deps = [(node.id, each) for node in nodes for each in node.data_deps]
    collectives, messages = {}, {}
    for node in nodes:
        group = node.attributes.get("pg_name")
        size = node.whole("comm_size") or 0
        if node.kind == "coll":
            kind = node.whole("comm_type")
            key = f"{'unknown' if kind is None else NAMES[kind]} pg={group.value if group else ''}"
            listing = collectives
        elif node.kind in ("send", "recv"):
            peer = node.whole("comm_dst" if node.kind == "send" else "comm_src")
            key = f"{node.kind} peer={peer} tag={node.whole('comm_tag') or 0}"
            listing = messages
        else:
            continue
        entry = listing.setdefault(key, {"count": 0, "bytes": 0})
        entry["count"] += 1
        entry["bytes"] += size
    return {
        "nodes": len(nodes), "by_type": Counter(NODE_TYPES[node.type] for node in nodes),
        "by_kind": kinds, "data_deps": len(deps),
        "ctrl_deps": sum(len(node.ctrl_deps) for node in nodes),
        "data_deps_missing": sum(each not in known for _, each in deps),
        "ctrl_deps_missing": sum(each not in known for node in nodes for each in node.ctrl_deps),
        "roots": sum(not node.data_deps for node in nodes),
        "deps_on_a_larger_id": sum(other > own for own, other in deps),
        "duration_us": {kind: sum(node.duration_micros for node in nodes if node.kind == kind)
                        for kind in kinds},
        "collectives": collectives, "p2p": messages}


def content_of(file):
    return [{"id": node.id, "name": node.name, "type": node.type,
             "ctrl_deps": list(node.ctrl_deps), "data_deps": list(node.data_deps),
             "start_us": node.start_micros, "duration_us": node.duration_micros,
             "attr": {name: list(each) for name, each in node.attributes.items()},
             "io": {}} for node in file.nodes]


def replayed(path, folder):
    """The job of a file by itself, in which communications take the recorded time."""
    alone = folder / f"alone{path.suffix}"
    alone.write_bytes(path.read_bytes())
    return netsim.read_workload(alone, format="chakra", replay=True)[0]


def critical_path_us(file, kinds):
    """The longest path along data_deps, if the nodes of some kinds take their time."""
    place = {node.id: k for k, node in enumerate(file.nodes)}
    count = len(place)
    deps = [(place[node.id], place[each]) for node in file.nodes for each in node.data_deps]
    made = Operations.make([(-1, 0.0, -1, "", "")] * count, deps, [(k, k) for k in range(count)],
                           [], 1)
    seconds = np.array([node.duration_micros * (node.kind in kinds) for node in file.nodes],
                       np.float64)
    return next(longest_path(made, seconds, 1)).max()


def schedule_ns(job, file=None):
    """The run of one rank; with a file, communications take no time."""
    if file is not None:
        nodes = sorted(file.nodes, key=lambda node: node.id)
        seconds = job.operations.compute_s.copy()
        seconds[:len(nodes)][[node.kind in COMMUNICATES for node in nodes]] = 0
        job = replace(job, operations=replace(job.operations, compute_s=seconds))
    return netsim.simulate(netsim.big_switch(2), [job]).jobs["finish_s"][0] * 1e9


def check_schedules(path, file, expected, folder):
    """Slots and order of one rank, without a network, and critical paths."""
    longest = expected.get("critical_path_us", expected.get("critical_path_zero_comm_us"))
    assert critical_path_us(file, ("cpu", "comp", "mem")) == longest
    if "critical_path_gpu_compute_only_us" in expected:
        assert critical_path_us(file, ("comp",)) == expected["critical_path_gpu_compute_only_us"]
    job = replayed(path, folder)
    assert schedule_ns(job, file) == pytest.approx(expected["one_rank_schedule_zero_comm_ns"],
                                                   rel=RTOL)
    if "one_rank_schedule_replay_ns" in expected:
        assert schedule_ns(job) == pytest.approx(expected["one_rank_schedule_replay_ns"], rel=RTOL)


def test_real_files_of_chakra(traces_chakra_case, tmp_path):
    for path, expected in facts_in(traces_chakra_case, tmp_path):
        file = (read_chakra_json if path.suffix == ".json" else read_chakra_file)(path)
        assert metadata_of(file) == expected["metadata"]
        found = counts_of(file)
        assert found == {name: expected[name] for name in found}
        if "content" in expected:
            assert content_of(file) == expected["content"]
        check_schedules(path, file, expected, tmp_path)


def test_microbenchmarks_take_what_their_collectives_do(traces_chakra_micro_case):
    """Each rank sends at the rate of its port all the time: bytes / B on a switch, and on a ring.

    All but the all-to-all take the closed form of the ring there.
    """
    for name, expected in json.loads(traces_chakra_micro_case.read_text()).items():
        path = DATA / "chakra" / name / f"{name.partition('-')[0]}.0.et"
        if not path.exists():
            pytest.skip("the real files are not there")
        workload, ranks = netsim.read_workload(path), expected["ranks"]
        sending = workload[0].operations.sendings[0]
        assert sending.communication.payload == expected["largest_buffer_per_rank"]
        flows = sending.flows
        for ends, key in ((flows.src, "bytes_sent_per_rank"),
                          (flows.dst, "bytes_received_per_rank")):
            assert np.bincount(ends, flows.nbytes).tolist() == [expected[key]] * ranks
        rate = 50 * 2**30
        alone = {"switch": expected["bytes_sent_per_rank"] / rate * 1e9,
                 "ring": expected.get("ring_closed_form_ns")}
        for kind, ns in alone.items():
            network = (netsim.big_switch if kind == "switch" else netsim.ring)(ranks, rate)
            if ns is not None:
                result = netsim.simulate(network, workload)
                assert result.jobs["finish_s"][0] * 1e9 == pytest.approx(ns, rel=RTOL)


def test_microbenchmarks_of_4_ranks_scaled_are_those_of_8(traces_chakra_micro_case):
    """With the input kept; but for all-gathers, with the larger buffer kept as well."""
    for name in json.loads(traces_chakra_micro_case.read_text()):
        kind, _, ranks = name.partition("-")
        paths = [DATA / "chakra" / f"{kind}-{count}" / f"{kind}.0.et" for count in (4, 8)]
        if not paths[0].exists():
            pytest.skip("the real files are not there")
        if ranks == "4":
            for keep in ("input", "buffer"):
                grown = netsim.read_workload(paths[0], layout={"dp": 4}, scale={"dp": 2}, keep=keep)
                sent = [[each.communication for each in jobs[0].operations.sendings]
                        for jobs in (grown, netsim.read_workload(paths[1]))]
                assert (sent[0] == sent[1]) == (keep == "input" or kind != "all_gather")


def test_the_custom_all_reduce_is_its_msccl_program(traces_chakra_custom_case, tmp_path):
    """Messages by pair as the facts and the program say, and the closed form of its time."""
    expected = json.loads(traces_chakra_custom_case.read_text())
    path = DATA / "chakra" / "custom" / "custom_allreduce.0.et"
    if not path.exists():
        pytest.skip("the real files are not there")
    job = netsim.read_workload(path)[0]
    sends, found = job.operations.sends, {}
    for k in sends[sends >= 0]:
        flow = job.operations.sendings[k].flows
        key = f"{flow.src[0]}->{flow.dst[0]} tag 0"
        count, nbytes = found.get(key, (0, 0))
        found[key] = count + 1, nbytes + flow.nbytes[0]
    assert found == {key: (each["messages"], each["bytes"])
                     for key, each in expected["pairs"].items()}
    for network in (netsim.ring(8, 50 * 2**30), netsim.big_switch(8, 50 * 2**30)):
        result = netsim.simulate(network, [job])
        assert result.jobs["finish_s"][0] * 1e9 == pytest.approx(
            expected["closed_form_ring_of_8_links_of_50_GiB_per_s_no_latency_ns"], rel=RTOL)
    embedded = read_chakra_file(path).attributes["input_file"].value
    (tmp_path / "embedded.xml").write_text(embedded)
    program = read_msccl(tmp_path / "embedded.xml")
    messages = program.messages(program.sizes(2**20))
    pairs = Counter()
    for src, dst, nbytes in zip(messages.src, messages.dst, messages.nbytes, strict=True):
        pairs[f"{src}->{dst} tag 0"] += nbytes
    assert pairs == {key: each["bytes"] for key, each in expected["pairs"].items()}
    listed = DATA / "msccl" / "astra_custom_allreduce_8.xml"
    assert not listed.exists() or embedded.strip() == listed.read_text().strip()


# --- small files ----------------------------------------------------------------------------------


def written(case, folder):
    path = folder / case["name"]
    path.write_bytes(bytes.fromhex(case["hex"]))
    return path


def test_small_files_of_chakra(traces_cases_case, tmp_path):
    cases = [each for each in json.loads(traces_cases_case.read_text())["good"]
             if each["name"].endswith(".et")]
    assert len(cases) == 2
    for case in cases:
        path, expected = written(case, tmp_path), case["expect"]
        file = read_chakra_file(path)
        found = [[node.id, NODE_TYPES[node.type], node.duration_micros, list(node.data_deps),
                  {name: each.value for name, each in node.attributes.items()}]
                 for node in file.nodes]
        assert found == expected["nodes"]
        check_schedules(path, file, expected, tmp_path)


#: Words that the errors must have, as the cases say them in other words.
SAID = {"empty.et": "file is empty", "cut-length.et": "message 1, byte .*32 bytes, 1 are left",
        "cut-varint.et": "message 1, byte 8: a varint goes past the end",
        "long-varint.et": "message 1, .*longer than 10 bytes", "group.et": "wire type 3",
        "field0.et": "field number 0", "type.et": "rank 0: node 0 .*unknown node type 9",
        "cycle.et": "rank 0: .*circle: (0, 1|1, 0)", "self.et": "rank 0: .*circle: 4",
        "wire.et": r"field 1 \(id\) has wire type 2", "old-nodes.et": "older Chakra schema",
        "old-first.et": "older Chakra schema", "twice.et": "id 1 occurs twice",
        "missing.et": "node 0 .*depends on node 5, which is not there"}


def test_bad_files_of_chakra(traces_cases_case, tmp_path):
    cases = [each for each in json.loads(traces_cases_case.read_text())["bad"]
             if each["name"].endswith(".et")]
    assert {case["name"] for case in cases} == SAID.keys()
    for case in cases:
        path = written(case, tmp_path)
        with pytest.raises(TraceError, match=SAID[case["name"]]) as caught:
            netsim.read_workload(path)
        assert str(path) in str(caught.value)


# --- profiles of PyTorch --------------------------------------------------------------------------


def launch_graph(trace):
    return graph_of(trace, trace.gpu)


def check_measures(trace, expected):
    """What the GPU did, to the nanosecond."""
    found = trace.measures()
    for name, value in (("gpu_span_us", found.span), ("gpu_busy_us", found.busy),
                        ("gpu_idle_us", found.idle), ("compute_busy_us", found.compute),
                        ("comm_busy_us", found.comm), ("comm_exposed_us", found.exposed),
                        ("comm_hidden_us", found.hidden)):
        assert value == round(expected.get(name, value / 1000) * 1000)


def check_nccl(trace, expected):
    """Kernels of NCCL with their sizes and ranks."""
    kernels, count, nbytes, seconds = NcclKernels(trace), Counter(), Counter(), Counter()
    for event in trace.gpu:
        if event.is_nccl:
            each = kernels.of(event)
            key = "|".join([each.kind.replace("-", ""), each.dtype, str(len(each.members)),
                            str(list(each.members))])
            count[key] += 1
            nbytes[key] += each.input_bytes
            seconds[key] += event.end_ns - event.start_ns
    assert count == expected["nccl_count"]
    assert nbytes == expected["nccl_in_bytes"]
    if "nccl_dur_us" in expected:
        assert seconds == {key: round(each * 1000) for key, each in
                           expected["nccl_dur_us"].items()}


def check_replay(path, trace, expected):
    """What waits for what, and that the replay gives the recorded times."""
    graph = launch_graph(trace)
    assert graph.edges == expected["edges"]
    assert graph.dropped == expected["contradicted_edges_dropped"]
    assert graph.launch_bound == expected["launch_bound_events"]
    assert sum(gap for gap in graph.gap if gap > 10_000) == round(
        expected["unexplained_gap_us"] * 1000)
    ends = ends_ns(graph)
    assert ends == [event.end_ns - graph.begin_ns for event in graph.events]
    assert max(ends) == round(expected["recorded_span_us"] * 1000)
    for name, how in (("replayed_span_us", {}), ("span_with_nccl_of_length_0_us", {"nccl": False}),
                      ("free_cpu_span_us", {"free": True}),
                      ("free_cpu_span_with_nccl_of_length_0_us", {"free": True, "nccl": False})):
        if name in expected:
            assert max(ends_ns(graph, **how)) == round(expected[name] * 1000)
    for cpu, name in (("recorded", "replayed_span_us"), ("free", "free_cpu_span_us")):
        workload = netsim.read_workload(path, format="kineto", copies=True, replay=True, cpu=cpu)
        result = netsim.simulate(netsim.big_switch(2), workload)
        assert result.jobs["finish_s"][0] * 1e6 == pytest.approx(expected[name], rel=RTOL)


def test_real_profiles(traces_kineto_case, tmp_path):
    for path, expected in facts_in(traces_kineto_case, tmp_path):
        trace = read_kineto_file(path)
        assert trace.events == expected["events"]
        assert (trace.rank, trace.ranks) == (expected["rank"] or 0, expected["world_size"] or 1)
        kinds = Counter(event.kind for event in trace.gpu)
        assert len(trace.gpu) == expected["gpu_events"]
        for kind, name in (("kernel", "kernels"), ("memcpy", "memcpy"), ("memset", "memset")):
            assert kinds[kind] == expected[name]
        assert Counter(event.lane for event in trace.gpu) == expected["per_stream"]
        assert sum(event.is_nccl for event in trace.gpu) == expected["nccl_kernels"]
        assert len(trace.records) == expected["record_param_comms"]
        assert [[step.name, (step.end_ns - step.start_ns) / 1000] for step in trace.steps
                ] == expected["profiler_steps"]
        graph = launch_graph(trace)
        assert (sum(each is None for each in graph.launch), len(graph.alone)) == (
            expected["gpu_events_without_launch"], expected["overlaps_within_a_stream"])
        check_measures(trace, expected)
        check_nccl(trace, expected)
        check_replay(path, trace, expected["replay"])


@exhaustive
def test_a_real_profile_of_2_ranks_is_scaled_to_16(traces_kineto_case):
    """Kernels stay; all-reduces of a group of 16 send 15/16 of twice what is reduced."""
    path = DATA / "pytorch" / "hta_nccl_data.json.gz"
    if not path.exists():
        pytest.skip("the real file is not there")
    expected = json.loads(traces_kineto_case.read_text())["pytorch/hta_nccl_data.json.gz"]
    grown = netsim.read_workload(path, format="kineto", layout={"dp": 2}, scale={"dp": 8})[0]
    made = grown.operations
    sent = [made.sendings[k].communication for k in made.sends[made.sends >= 0]]
    assert {each.members for each in sent} == {tuple(range(16))}
    assert sum(each.payload for each in sent if each.kind == "all-reduce") == expected[
        "nccl_in_bytes"]["allreduce|Float|2|[0, 1]"]
    result = netsim.simulate(netsim.big_switch(16, "25GB/s"), [grown], record=["jobs", "coflows"])
    totals = result.coflows.groupby("bytes").size()
    assert totals.sum() == expected["nccl_kernels"]
    reduced = sum(2 * 15 * each.payload for each in sent if each.kind == "all-reduce")
    chained = sum(15 * each.payload for each in sent if each.kind == "broadcast")
    assert result.coflows["bytes"].sum() == pytest.approx(reduced + chained)


def test_small_profiles(traces_cases_case, tmp_path):
    cases = [each for each in json.loads(traces_cases_case.read_text())["good"]
             if "traceEvents" in each.get("json", ())]
    assert cases
    for case in cases:
        path, expected = tmp_path / case["name"], case["expect"]
        path.write_text(json.dumps(case["json"]))
        trace = read_kineto_file(path)
        check_measures(trace, expected)
        check_nccl(trace, expected)
        check_replay(path, trace, expected["replay"])
