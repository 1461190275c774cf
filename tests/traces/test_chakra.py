"""Execution traces of Chakra, as jobs, and jobs as such."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, StalledError
from netsim.cli.main import main
from netsim.errors import InputError, NetsimWarning, TraceError, UnknownNameError
from netsim.traces import check_trace, convert
from netsim.traces.training import read_chakra_file, write_chakra
from netsim.traces.training.chakra_file import BrokenMessage, encode, pack, read_chakra_json, varint
from netsim.workload.columns import Flows
from netsim.workload.operations import Operations, Sending

from .chakra_files import VERSION, coll, node, write

RECORD = ["jobs", "coflows", "computations"]
#: A port takes 1 us for 1 kB.
RATE = 1e9


def run(path, ranks=2, **options):
    workload = netsim.read_workload(path, **options)
    return netsim.simulate(netsim.big_switch(ranks, RATE), workload, record=RECORD)


def coflows_us(result):
    return sorted([round(each * 1e6, 6) for each in row]
                  for row in result.coflows[["start_s", "finish_s"]].to_numpy().tolist())


# --- times ------------------------------------------------------------------------------------


def test_a_collective_begins_when_all_of_its_ranks_have_come_to_it(tmp_path):
    """Ranks come at 3 and 7 us; each sends 2 (n-1)/n 1 kB = 1 kB in 1 us; rank 0 goes on for 5."""
    path = write(tmp_path, [node(0, "COMP", us=3), coll(1, [0]), node(2, "COMP", [1], us=5)],
                 [node(0, "COMP", us=7), coll(1, [0])])
    result = run(path)
    assert coflows_us(result) == [[7, 8]]
    assert result.jobs["finish_s"][0] == pytest.approx(13e-6)
    waits = result.computations[result.computations["stream"] == "communication"]
    assert sorted(waits["start_s"] * 1e6) == pytest.approx([3, 7])
    assert waits["finish_s"].to_numpy() * 1e6 == pytest.approx([8, 8])


def test_a_message_does_not_wait_for_its_receiver(tmp_path):
    """It is there at 2 us; the first receiver has waited for it, the other comes at 6 us."""
    send = node(0, "SEND", comm_dst=1, comm_size=2000)
    after = node(2, "COMP", [1], us=1)
    for late, end in ((0, 3), (6, 7)):
        receive = node(1, "RECV", [0], comm_src=0, comm_size=2000)
        path = write(tmp_path, [send], [node(0, "COMP", us=late), receive, after])
        least = 0 if late else 1e-3  # a computation of no length counts a nanosecond
        result = run(path)
        assert coflows_us(result) == [[0, 2]]
        assert result.jobs["finish_s"][0] * 1e6 == pytest.approx(end, abs=least)


def test_messages_meet_by_their_number_and_tag(tmp_path):
    """Of tag 0 the first has 1 kB and the second 3 kB; that of tag 7 has 2 kB."""
    sizes = (1000, 0), (2000, 7), (3000, 0)
    sends = [node(k, "SEND", comm_dst=1, comm_size=size, comm_tag=tag)
             for k, (size, tag) in enumerate(sizes)]
    receives = [node(k, "RECV", comm_src=0, comm_size=size, comm_tag=tag)
                for k, (size, tag) in enumerate(((2000, 7), (1000, 0), (3000, 0)))]
    path = write(tmp_path, sends, receives)
    assert coflows_us(run(path)) == [[0, 1], [1, 3], [3, 6]]
    assert coflows_us(run(path, comm_slots="none")) == [[0, 3], [0, 5], [0, 6]]


def test_groups_are_matched_by_themselves(tmp_path):
    """Two groups of two run beside each other; then all meet."""
    groups = {"a": [0, 2], "b": [3, 1]}
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    path = write(tmp_path, *([coll(5, pg_name="a" if rank in (0, 2) else "b",
                                   comm_size=1000 if rank in (0, 2) else 4000),
                              coll(6, [5], comm_size=2000)] for rank in range(4)))
    result = run(path, 4, groups="groups.json")
    assert coflows_us(result) == [[0, 1], [0, 4], [4, 7]]
    made = netsim.read_workload(path, groups="groups.json")[0].operations.sendings
    assert sorted(each.communication[:4] for each in made) == [
        ("all-reduce", (0, 1, 2, 3), 2000, ""), ("all-reduce", (0, 2), 1000, "a"),
        ("all-reduce", (3, 1), 4000, "b")]


def test_metadata_lists_groups(tmp_path):
    listing = json.dumps([{"pg_name": "4", "ranks": [1, 0], "pg_desc": "dp"},
                          {"pg_name": "5", "ranks": []}])
    groups = encode([(1, 9), (2, "g"), (3, 1), (8, encode([(1, f"['{listing}']")]))])
    path = write(tmp_path, *[[groups, coll(0, pg_name="4"), coll(1, pg_name="5")]] * 2)
    made = netsim.read_workload(path)[0].operations.sendings
    assert [each.communication[1:4] for each in made] == [((1, 0), 1000, "dp"), ((0, 1), 1000, "5")]


@pytest.mark.parametrize(("number", "kind", "us"), [
    (0, "all-reduce", 2 * 2 / 3), (1, "reduce", 1), (2, "all-gather", 2), (3, "gather", 2),
    (4, "scatter", 2 / 3), (5, "broadcast", 1), (6, "all-to-all", 2 / 3),
    (7, "reduce-scatter", 2 / 3), (8, "reduce-scatter", 2 / 3), (9, "barrier", 0)])
def test_each_collective_sends_what_it_must(tmp_path, number, kind, us):
    """Three ranks put in 1 kB each: the busiest port decides, 1 us for each kB."""
    path = write(tmp_path, *[[coll(0, comm_type=number)]] * 3)
    result = run(path, 3)
    if kind != "barrier":
        sent = netsim.read_workload(path)[0].operations.sendings[0]
        whole = 3000 if kind in ("all-gather", "gather") else 1000
        assert sent.communication[:4] == (kind, (0, 1, 2), whole, "")
    assert result.jobs["finish_s"][0] * 1e6 == pytest.approx(us, abs=1e-9)


def test_sizes_of_0_and_groups_of_one_take_no_time_and_are_counted(tmp_path):
    (tmp_path / "g.json").write_text('{"x": [1]}')
    path = write(tmp_path, [coll(0, comm_size=0)],
                 [coll(0, comm_size=0), coll(1, [0], pg_name="x")])
    result = run(path, groups="g.json")
    assert len(result.coflows) == 2
    assert result.jobs["finish_s"][0] == 0
    with pytest.raises(TraceError, match=r"t\.0\.et: rank 0: node 0 .*comm_size must be at least"):
        run(path, groups="g.json", strict=True)


def test_slots_go_to_the_smallest_id_that_can_begin(tmp_path):
    """Node 3 could begin first and 1 is ready at 4 us, when the GPU is free; the host beside it."""
    nodes = [node(0, "COMP", us=2), node(1, "COMP", [5], us=10), node(2, "COMP", [0], us=2),
             node(3, "COMP", [0], us=20), node(5, "COMP", us=4, is_cpu_op=True)]
    spans = run(write(tmp_path, nodes), 2).computations.set_index("stage")
    assert (spans.loc[["n0", "n2", "n1", "n3"], "start_s"] * 1e6).tolist() == pytest.approx(
        [0, 2, 4, 14])


def test_iterations_follow_one_another(tmp_path):
    path = write(tmp_path, *[[node(0, "COMP", us=3), coll(1, [0])]] * 2)
    assert coflows_us(run(path, iterations=3)) == [[3, 4], [7, 8], [11, 12]]


def test_a_roofline_and_loads(tmp_path):
    """10 op at 1e6 op/s or 4 B at 1e6 B/s take 10 us, 2 op and 4 B take 4; 3 B are loaded in 3."""
    path = write(tmp_path, [node(0, "COMP", us=77, num_ops=10, tensor_size=4),
                            node(1, "COMP", [0], us=77, num_ops=2, tensor_size=4),
                            node(2, "MEM_LOAD", [1], tensor_size=3),
                            node(3, "MEM_STORE", [2], us=5, tensor_size=3)])
    result = run(path, peak_flops=1e6, memory_rate=1e6)
    assert result.jobs["finish_s"][0] * 1e6 == pytest.approx(10 + 4 + 3 + 5)
    assert run(path).jobs["finish_s"][0] * 1e6 == pytest.approx(77 + 77 + 5)


def test_replay_takes_recorded_times_and_matches_nothing(tmp_path):
    path = write(tmp_path, [coll(0, pg_name="lost"), node(1, "SEND", [0], us=4),
                            node(2, "RECV", [1], us=5)])
    result = run(path, replay=True)
    assert len(result.coflows) == 0
    assert result.jobs["finish_s"][0] == pytest.approx(9.001e-6)


def test_dependencies_of_control_count_if_asked_for(tmp_path):
    path = write(tmp_path, [node(0, "COMP", us=3, is_cpu_op=True),
                            node(1, "COMP", us=4, ctrl=[0, 8])])
    assert run(path).jobs["finish_s"][0] == pytest.approx(4e-6)
    with pytest.warns(NetsimWarning, match="rank 0: 1 dependencies of control"):
        assert run(path, deps="data+ctrl").jobs["finish_s"][0] == pytest.approx(7e-6)


# --- what is wrong ------------------------------------------------------------------------------


def listing(ranks, name="4"):
    """A metadata node that lists a group."""
    text = json.dumps([{"pg_name": name, "ranks": ranks}])
    return encode([(1, 9), (2, "g"), (3, 1), (8, encode([(1, f"['{text}']")]))])


ONE = [coll(1), coll(2)]
WRONG = [
    ([[coll(4, comm_type=0)], []],
     r"rank 0: node 4 \('n4'\) is collective 0 of group '' of ranks 0, 1, which rank 1 does not "
     "reach; rank 1 has none"),
    ([ONE, ONE, [coll(7)]], r"rank 0: node 2 .* is collective 1 .* which rank 2 does not reach; "
                            r"the last one of rank 2 is node 7"),
    ([[coll(0)], [coll(5, comm_type=6)]],
     r"rank 1: node 5 .*: all-to-all of 1000 bytes; on rank 0 it is node 0 .*: all-reduce of 1000"),
    ([[coll(0)], [coll(5, comm_size=9)]], "rank 1: node 5 .* of 9 bytes; on rank 0 .* 1000 bytes"),
    ([[coll(3, pg_name="7")]], r"rank 0: node 3 .*unknown group '7'; choose from: none"),
    ([[coll(3, comm_type=10)]], "rank 0: node 3 .*unknown comm_type 10"),
    ([[coll(3, comm_size=-1)]], "comm_size must be at least 0, not -1"),
    ([[coll(3, comm_size="1")]], "comm_size must be a whole number, not '1'"),
    ([[node(3, "COLL", comm_type=0)]], "rank 0: node 3 .* collective without comm_size"),
    ([[node(3, "COLL", comm_size=1)]], "rank 0: node 3 .* collective without comm_type"),
    ([[node(3, "SEND", comm_size=1)]], "rank 0: node 3 .* send without comm_dst"),
    ([[node(3, "RECV", comm_src=0)]], "rank 0: node 3 .* recv without comm_size"),
    ([[node(3, "RECV", comm_size=1)]], "rank 0: node 3 .* recv without comm_src"),
    ([[node(3, "RECV", comm_src=1, comm_dst=1, comm_size=1)], []],
     "comm_dst of a recv must be its own rank, not 1"),
    ([[listing([0, 1]), coll(3, pg_name="4")], [listing([0, 1, 2]), coll(5, pg_name="4")], []],
     "rank 0: node 3 .* collective 0 of group '4' of ranks 0, 1, which rank 1 does not reach; "
     "on rank 1 the group is of ranks 0, 1, 2"),
    ([[], [listing([0, 2])]], r"rank 1: node 9 \('g'\): group '4' has rank 2, and ranks are from"),
    ([[coll(0, comm_type=9)], []], "rank 0: node 0 .* collective 0 .* rank 1 does not reach"),
    ([[node(k, "COMP", [(k + 1) % 12]) for k in range(12)]],
     "rank 0: nodes depend on each other in a circle: 11, 10, 9, 8, 7, 6, 5, 4, 3, 2 and 2 more"),
    ([[encode([(1, 1), (3, 300)])]], r"rank 0: node 1 \(''\) has the unknown node type 300"),
    ([[node(3, "SEND", comm_dst=1, comm_size=1)]], "comm_dst must be a rank from 0 to 0, not 1"),
    ([[node(3, "SEND", comm_dst=1, comm_src=1, comm_size=1)], []],
     "comm_src of a send must be its own rank, not 1"),
    ([[node(3, "SEND", comm_dst=1, comm_size=1)], []],
     "rank 0: node 3 .* sends message 0 from rank 0 to 1 with tag 0, which rank 1 does not rec"),
    ([[], [node(3, "RECV", comm_src=0, comm_size=1, comm_tag=2)]],
     "rank 1: node 3 .* receives message 0 .* with tag 2, which rank 0 does not send"),
    ([[node(3, "SEND", comm_dst=1, comm_size=1)], [node(4, "RECV", comm_src=0, comm_size=2)]],
     r"rank 0: node 3 .* of 1 bytes, of which node 4 .* of rank 1 receives 2"),
    ([[coll(1, [2]), coll(2)], [coll(1), coll(2, [1])]],
     r"circle:\nrank .: node . \('n.'\) waits for node . \('n.'\)\nrank"),
    ([[node(0, "RECV", comm_src=1, comm_size=1), node(1, "SEND", [0], comm_dst=1, comm_size=1)],
      [node(0, "RECV", comm_src=0, comm_size=1), node(1, "SEND", [0], comm_dst=0, comm_size=1)]],
     r"circle:(\n.*)*rank 0: node 0 \('n0'\) waits for node 1 \('n1'\) of rank 1"),
    ([[node(0, "RECV", comm_src=1, comm_size=1), *(node(k, "COMP", [k - 1]) for k in range(1, 9)),
       node(9, "SEND", [8], comm_dst=1, comm_size=1)],
      [node(0, "RECV", comm_src=0, comm_size=1), node(1, "SEND", [0], comm_dst=0, comm_size=1)]],
     r"circle:\nrank 0: .*\nrank 1: .*\nrank 1: .* waits for node 9 \('n9'\) of rank 0\nrank 0: "
     ".*\nrank 0: and so on, 7 times\nrank 0: .*$"),
    ([[], []], "there are no nodes"),
]


@pytest.mark.parametrize(("ranks", "said"), WRONG)
def test_what_ranks_do_not_agree_on_is_said(tmp_path, ranks, said):
    path = write(tmp_path, *ranks)
    with pytest.raises(TraceError, match=said) as caught:
        netsim.read_workload(path)
    assert str(tmp_path) in str(caught.value)


def test_the_file_of_each_rank_must_be_there(tmp_path):
    path = write(tmp_path, [coll(0)], [coll(0)], [coll(0)])
    (tmp_path / "t.1.et").unlink()
    with pytest.raises(TraceError, match=r"rank 1, t\.1\.et, is missing; .* up to rank 2"):
        netsim.read_workload(path)


def test_slots_can_deadlock_and_the_error_says_who_waits_for_whom(tmp_path):
    (tmp_path / "g.json").write_text('{"a": [0, 1], "b": [0, 1]}')
    names = "ab", "ba"
    path = write(tmp_path, *([coll(k, name=each, pg_name=each) for k, each in enumerate(order)]
                             for order in names))
    with pytest.raises(StalledError, match="rank 0: 'a' waits since 0 s for 'a' of rank 1, whose "
                                           "turn it is not; job 0, rank 1: 'b' waits"):
        run(path, groups="g.json")
    assert len(run(path, groups="g.json", comm_slots="none").coflows) == 2


@pytest.mark.parametrize(("table", "said"), [
    ('{"a": [0, 2]}', "group 'a' has rank 2, and ranks are from 0 to 1"),
    ('{"a": [0, 0]}', "group 'a' has a rank twice"), ('{"a": 3}', "must be a list of ranks"),
    ('{"a": [1]}', "rank 0: node 0 .* group 'a', in which this rank is not"), ("[", "not JSON")])
def test_files_of_groups_are_checked(tmp_path, table, said):
    (tmp_path / "g.json").write_text(table)
    path = write(tmp_path, *[[coll(0, pg_name="a")]] * 2)
    with pytest.raises(TraceError, match=said):
        netsim.read_workload(path, groups="g.json")


@pytest.mark.parametrize(("options", "said"), [
    ({"deps": "all"}, "deps 'all'"), ({"comm_slots": 2}, 'must be 1 or "none", not 2'),
    ({"replay": 1}, "replay must be true or false"), ({"iterations": 0}, "iterations"),
    ({"peak_flops": 1e9}, "needs memory_rate"),
    ({"peak_flops": -1, "memory_rate": 1}, "greater than 0, not -1"),
    ({"hosts": [0]}, "2 ranks need 2 hosts")])
def test_options_are_checked(tmp_path, options, said):
    path = write(tmp_path, *[[coll(0)]] * 2)
    with pytest.raises(InputError, match=said):
        netsim.read_workload(path, **options)


# --- the wire format -----------------------------------------------------------------------------


def test_fields_in_any_order_packed_or_not_and_unknown_ones(tmp_path):
    """Of a repeated scalar the last counts; fields from 21 on are of later versions."""
    late = encode([(99, "x"), (7, 5), (5, b"".join(map(pack, [0, 1]))), (5, 2), (3, 2), (3, 4),
                   (2, b"\xff"), (1, 3), (40, 1.5), (10, encode([(27, 1), (1, "is_cpu_op")]))])
    path = write(tmp_path, [node(k, "COMP", us=1) for k in range(3)] + [late])
    last = read_chakra_file(path).nodes[-1]
    assert (last.id, last.name, last.type, last.duration_micros) == (3, "\ufffd", 4, 5)
    assert (last.data_deps, last.kind) == ((0, 1, 2), "cpu")


@pytest.mark.parametrize("wire", [3, 4, 6, 7])
def test_wire_types_that_do_not_exist_are_refused_with_their_byte(tmp_path, wire):
    """The metadata takes 8 bytes, the node its length, an id, and then a field 15."""
    path = write(tmp_path, [encode([(1, 5)]) + bytes([15 << 3 | wire, 0])])
    with pytest.raises(TraceError, match=f"message 1, byte 11: field 15 has wire type {wire}"):
        netsim.read_workload(path)


@given(st.integers(-2**63, 2**64 - 1), st.text(), st.lists(st.integers(0, 2**64 - 1)),
       st.floats(allow_nan=False), st.booleans())
def test_what_is_encoded_is_decoded(tmp_path_factory, number, text, deps, real, flag):
    path = tmp_path_factory.mktemp("wire") / "t.et"
    attributes = [encode([(1, f"a{field}"), (field, value)]) for field, value in (
        (9, number), (13, number), (17, number), (29, text), (3, real), (27, int(flag)))]
    message = encode([(1, number), (2, text), (5, b"".join(map(pack, deps))),
                      *((10, each) for each in attributes)])
    path.write_bytes(b"".join(pack(len(each)) + each for each in (VERSION, message)))
    made = read_chakra_file(path).nodes[0]
    bits = number % 2**64
    assert (made.id, made.name, made.data_deps) == (bits, text, tuple(deps))
    values = [each.value for each in made.attributes.values()]
    assert values == [bits - (bits >> 63 << 64), bits, bits // 2 if bits % 2 == 0
                      else -(bits + 1) // 2, text, real, flag]


# --- JSON ---------------------------------------------------------------------------------------


def test_one_object_and_an_object_per_message_say_the_same(tmp_path):
    """Messages have the names of the protocol, with underscores or without, and numbers as text."""
    graph = {"workload_graph": [
        {"Id": 4, "Name": "a", "NodeType": 4, "runtime": 3, "is_cpu_op": True},
        {"Id": 5, "NodeType": 7, "data_deps": [4], "comm_type": 2, "comm_size": 8}]}
    snake = [{"version": "0.0.4"},
             {"id": "4", "name": "a", "type": "COMP_NODE", "duration_micros": "3",
              "attr": [{"name": "is_cpu_op", "bool_val": True}]},
             {"id": 5, "type": 7, "data_deps": ["4"], "attr": [
                 {"name": "comm_type", "int64_val": "2"}, {"name": "comm_size", "int64_val": "8"}]}]
    camel = json.dumps(snake).replace("duration_micros", "durationMicros").replace(
        "data_deps", "dataDeps").replace("_val", "Val")
    texts = [json.dumps(graph), "\n".join(map(json.dumps, snake)),
             "".join(map(json.dumps, json.loads(camel)))]
    found = []
    for text in texts:
        (tmp_path / "t.0.json").write_text(text)
        file = read_chakra_json(tmp_path / "t.0.json")
        found.append([(each.id, each.name, each.type, each.data_deps, each.duration_micros,
                       each.attributes) for each in file.nodes])
        job = netsim.read_workload(tmp_path / "t.0.json", format="chakra")[0]
        assert job.operations.sendings[0].communication[:4] == ("all-gather", (0,), 8, "")
    assert found[0] == found[1] == found[2]


def test_collectives_without_a_size_take_the_recorded_time(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"workload_graph": [{"Id": 0, "NodeType": 7, "runtime": 6}]}))
    with pytest.warns(NetsimWarning, match="1 collectives have no type or size"):
        result = run(path, format="chakra")
    assert result.jobs["finish_s"][0] == pytest.approx(6e-6)
    with pytest.raises(TraceError, match="collective without comm_type"):
        run(path, format="chakra", strict=True)


@pytest.mark.parametrize(("text", "said"), [
    ('{"workload_graph": 3}', "must be a list"), ('{"workload_graph": [{"Id": 1}]}', "NodeType"),
    ('{"workload_graph": [4]}', r"workload_graph\[0\]: must be an object"),
    ('{"workload_graph": [{"Id": 1.5, "NodeType": 4}]}', "id must be a whole number"),
    ('{"workload_graph": [{"Id": -1, "NodeType": 4}]}', "id must be at least 0"),
    ('{"workload_graph": [{"Id": "\uff11", "NodeType": 4}]}', "id must be a whole number of 64"),
    ('{"version": "1"}{"id": 1, "type": "NEW_NODE"}', "message 1: unknown node type 'NEW_NODE'"),
    ('{"version": "1"}{"id": 1, "attr": 2}', "attr must be a list"),
    ('{"id": 1, "type": 4}', "first message must be the metadata"),
    ('{"version": "1"}\n{"id": }', ":2: not JSON"), ("[]", "JSON objects"),
    ('{"schemaVersion": 1, "traceEvents": []}', 'is a profile of PyTorch .*format = "kineto"'),
    ('{"schema": "1.1", "nodes": [{"id": 1}]}', "execution trace of PyTorch: .*chakra_trace_link"),
    ("[" * 2000, "not read as JSON|not JSON")])
def test_wrong_json_is_refused(tmp_path, text, said):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(TraceError, match=said):
        netsim.read_workload(tmp_path / "t.json", format="chakra")


def test_json_is_not_protobuf(tmp_path):
    (tmp_path / "t.et").write_text('{"version": "1"}')
    with pytest.raises(TraceError, match=r"is JSON, not protobuf; its name must end in \.json"):
        netsim.read_workload(tmp_path / "t.et")


@pytest.mark.parametrize(("text", "said"), [
    ('{"workload_graph": []}', 'format = "chakra"'), ('{"traceEvents": []}', 'format = "kineto"')])
def test_json_of_others_is_known_without_its_format(tmp_path, text, said):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(TraceError, match=f"must hold either 'jobs' or 'coflows'; .*{said}"):
        netsim.read_workload(tmp_path / "t.json")


# --- and back -------------------------------------------------------------------------------------


TINY = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32}
SETUPS = [{"tp": 2, "pp": 2, "dp": 2, "zero": 1, "sequence_parallel": True},
          {"dp": 8, "zero": 3}, {"dp": 4, "cp": 2, "overlap_grad_reduce": True}]


@pytest.mark.parametrize("setup", SETUPS)
def test_a_job_that_is_written_and_read_back_takes_the_same_times(tmp_path, setup):
    """To the last bit, each coflow and each computation; iterations are in one, and overlap."""
    job = netsim.llm_job(TINY, global_batch=8, iterations=2, **setup)
    files = write_chakra(job, tmp_path / "made.et")
    assert [path.name for path in files] == [f"made.{rank}.et" for rank in range(8)]
    tables = [netsim.simulate(netsim.big_switch(8, RATE), jobs, record=RECORD)
              for jobs in ([job], netsim.read_workload(files[0]))]
    for name, columns in (("computations", ["rank", "stage", "start_s", "finish_s"]),
                          ("coflows", ["stage", "start_s", "finish_s", "bytes"]),
                          ("jobs", ["start_s", "finish_s"])):
        one, other = (sorted(map(tuple, getattr(each, name)[columns].astype({
            column: str for column in columns if column == "stage"}).to_numpy()))
            for each in tables)
        assert one == other


def test_a_written_job_says_what_its_groups_are(tmp_path):
    job = netsim.llm_job(TINY, global_batch=8, tp=2, dp=4)
    back = netsim.read_workload(write_chakra(job, tmp_path / "made.et")[0])[0]
    kinds = [{each.communication for each in made.sendings}
             for made in (job.operations.whole, back.operations)]
    assert kinds[0] == kinds[1]
    assert {each.group for each in kinds[0]} == {"tp", "dp-cp"}


def operations(sendings, rows=None, after=()):
    rows = rows or [(-1, 0.0, 0, "", "send")]
    return Operations.make(rows, after, [(0, 0)], sendings, 3)


@pytest.mark.parametrize(("made", "said"), [
    (operations([Sending(Flows.of([(0, 1, 5)]))]), "no collective and no message"),
    (operations([Sending.of("send", [0, 1], 5)._replace(weight=2.0)]), "a weight"),
    (operations([], [(0, 1.0, -1, "a", "one"), (1, 1.0, -1, "a", "two")], [(1, 0)]),
     "'two' waits for 'one' of other ranks"),
    (operations([], [(-1, 1.0, -1, "a", "pause")]), "computes on no rank"),
    (operations([Sending.of("send", [1, 2], 5)], [(0, 1.0, 0, "a", "x")]), "sends for other ranks"),
])
def test_what_the_format_cannot_say_is_refused(tmp_path, made, said):
    with pytest.raises(InputError, match=said):
        write_chakra(JobSpec(0, operations=made), tmp_path / "made.et")
    assert not list(tmp_path.iterdir())


def test_jobs_of_other_kinds_are_refused(tmp_path):
    plain = JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=5)
    with pytest.raises(InputError, match="job 0 has no operations"):
        write_chakra(plain, tmp_path / "made.et")
    with pytest.raises(InputError, match="one job, not 2"):
        write_chakra(netsim.Workload([plain, replace(plain, id=1)]), tmp_path / "made.et")


def test_workloads_are_converted_to_it(tmp_path):
    path = write(tmp_path, *[[node(0, "COMP", us=3), coll(1, [0])]] * 2)
    job = convert(path, tmp_path / "u.et", comm_slots="none")[0]
    again = netsim.read_workload(tmp_path / "u.0.et")[0]
    assert again.operations.sendings[0].communication == job.operations.sendings[0].communication
    assert coflows_us(run(tmp_path / "u.0.et")) == [[3, 4]]
    with pytest.raises(InputError, match="hold streams"):
        convert(path, tmp_path / "v.et")


def test_the_command_line_checks_and_converts_it(tmp_path):
    """Two all-reduces of two flows of 1 kB each."""
    path = write(tmp_path, *[[coll(0), coll(1, [0])]] * 2)
    facts = dict(check_trace(path, iterations=3).facts)
    assert (facts["coflows"], facts["flows"], facts["bytes in total"]) == (6, 12, 12000)
    target = tmp_path / "w.et"
    done = CliRunner().invoke(main, ["trace", "convert", str(path), str(target), "--set",
                                     "comm_slots=none"])
    assert done.exit_code == 0, done.output
    assert coflows_us(run(tmp_path / "w.0.et")) == [[0, 1], [1, 2]]


def test_a_workload_file_names_it(tmp_path):
    write(tmp_path, *[[coll(0)]] * 2)
    (tmp_path / "w.toml").write_text('format = "chakra"\nfile = "t.0.et"\niterations = 2\n')
    assert netsim.read_workload(tmp_path / "w.toml")[0].iterations == 2
    with pytest.raises(UnknownNameError, match="chakra option 'slots'"):
        netsim.read_workload(tmp_path / "t.0.et", slots=1)


def test_recorded_times_of_more_than_a_week_are_refused_or_none(tmp_path):
    path = write(tmp_path, [node(0, "COMP", us=3), node(1, "COMP", [0], us=10**15)])
    with pytest.raises(TraceError, match=r"rank 0: node 1 .*: takes 11,574 days"):
        netsim.read_workload(path)
    with pytest.warns(NetsimWarning, match="1 recorded times are more than a week"):
        workload = netsim.read_workload(path, drop_long=True)
    result = netsim.simulate(netsim.big_switch(2, RATE), workload)
    assert result.jobs["finish_s"][0] == pytest.approx(3e-6, abs=2e-9)


def test_a_number_ends_within_its_message():
    """The first byte says that another one follows, which is of what comes after the message."""
    with pytest.raises(BrokenMessage, match="a varint goes past the end"):
        varint(b"\x80\x01", 0, 1)
