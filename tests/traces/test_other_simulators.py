"""Flows of htsim and the HPCC simulator: when they start, what they wait for, what is refused."""

import pytest

import netsim
from netsim.errors import NetsimWarning
from netsim.traces import TraceProblemsError, check_trace, read_htsim_failures, read_workload

CHAIN = """\
Nodes 4
Connections 4
Triggers 2
# 0 sends to 1, then 1 and 2 to 3, and when both are done 3 to 0
0->1 id 1 start 1000000 size 1000 send_done_trigger 1 prio 3
1->3 id 2 trigger 1 size 1000 recv_done_trigger 2
2->3 id 3 trigger 1 size 1000 recv_done_trigger 2 msg 1
3->0 id 4 trigger 2 size 2000
trigger id 1 oneshot
trigger id 2 barrier count 2
"""


@pytest.fixture
def written(tmp_path):
    def write(text, name="flows.cm"):
        path = tmp_path / name
        path.write_text(text)
        return path
    return write


def test_triggers_are_dependencies(written):
    """At B = 1 kB/s: starts at 1 us, 1 s alone, 2 s for two into one port, 2 s for 2,000 bytes."""
    workload = read_workload(written(CHAIN))
    done = netsim.simulate(netsim.big_switch(4, "1kB/s"), workload, allocator="maxmin")
    assert done.jobs[["job", "arrival_s"]].to_numpy().tolist() == [[1, 1e-6]]
    assert done.coflows.sort_values("coflow")["finish_s"].tolist() == pytest.approx(
        [1 + 1e-6, 3 + 1e-6, 3 + 1e-6, 5 + 1e-6], rel=1e-12)
    assert check_trace(written(CHAIN)).facts[1:3] == (
        ("connections", 4), ("connections that wait for others", 3))


def test_independent_connections_are_jobs(written):
    text = "Nodes 3\nConnections 2\n0->1 id 7 start 2500 size 10 msg\n2->1 start 0.5 size 20\n"
    workload = read_workload(written(text))
    assert [(job.id, job.arrival_s) for job in workload] == [(1, 5e-13), (0, 2.5e-9)]
    workload = read_workload(written(text.replace("2->1", "2->1 id 9")))
    assert [job.id for job in workload] == [9, 7]


def test_a_multishot_trigger_starts_one_after_the_other(written):
    text = ("Nodes 4\nConnections 4\nTriggers 1\n"
            "0->1 id 1 start 0 size 1 send_done_trigger 1\n"
            "2->1 id 2 start 0 size 1 send_done_trigger 1\n"
            "0->3 id 3 trigger 1 size 1\n2->3 id 4 trigger 1 size 1\ntrigger id 1 multishot\n")
    with pytest.warns(NetsimWarning, match="order of the file"):
        workload = read_workload(written(text))
    assert [[(stage.name, stage.after) for stage in job.stages] for job in workload] == [
        [("connection-1", ()), ("connection-3", ("connection-1",))],
        [("connection-2", ()), ("connection-4", ("connection-2",))]]


def test_messages_of_a_connection_are_sent_in_turn(written):
    """At B = 1 kB/s: messages of 1,000 and 3,000 bytes from 0 on, and one of 500 from 5 s on.

    They end at 1, 4 and 5.5 s. The other connection has another port of its sender, and shares that
    of the receiver from 5 s on: 500 bytes each until 6 s, so that the message ends then.
    """
    text = ("Nodes 3\nConnections 4\n0->1 id 3 msg 9 start 5000000000000 size 500\n"
            "0->1 id 3 msg start 0 size 1000\n0->1 id 3 msg 4 start 0 size 3000\n"
            "2->1 id 5 start 5000000000000 size 500\n")
    with pytest.warns(NetsimWarning, match="3: starts of messages are taken in picoseconds"):
        workload = read_workload(written(text))
    assert [(job.id, [stage.name for stage in job.stages]) for job in workload] == [
        (3, ["connection-3-line-3", "connection-3-line-4", "connection-3-line-5"]),
        (5, ["connection-5"])]
    done = netsim.simulate(netsim.big_switch(3, "1kB/s"), workload, allocator="maxmin")
    assert sorted(done.coflows["finish_s"]) == pytest.approx([1, 4, 6, 6], rel=1e-12)


def test_messages_at_the_beginning_need_no_warning(written, recwarn):
    lines = "0->1 id 1 msg start 0 size 4086\n" * 3
    (job,) = read_workload(written("Nodes 2\nConnections 3\nTriggers 0\n" + lines))
    assert len(job.stages) == 3
    assert not recwarn


@pytest.mark.parametrize(("old", "new", "said"), [
    ("Nodes 4\n", "", ":4: Nodes is missing|:1"),
    ("Connections 4", "Connections 5", ":2: 5 connections announced, 4 found"),
    ("Triggers 2", "Triggers 3", ":3: 3 triggers announced, 2 found"),
    ("start 1000000", "start -1", r":5: start must be a number from 0 to 1e\+100, not '-1'"),
    ("start 1000000", "", ":5: neither start nor trigger"),
    ("start 1000000", "start 0 trigger 1", ":5: start and trigger are both given"),
    ("size 2000", "size 0", ":8: size must be at least 1, not 0, with which htsim never stops"),
    ("size 2000", "size -1", ":8: size must be a whole number of at least 1, not '-1'"),
    ("size 2000", "", ":8: size is missing"),
    ("3->0 id 4", "3->0", ":8: a connection with a trigger must have an id"),
    ("3->0 id 4", "3->0 id 3", ":8: id 3 is there twice, first on line 7; only messages"),
    ("3->0 id 4", "3->0 id 1 msg", ":8: a message of connection 1 must be 0->1, not 3->0"),
    ("2->3 id 3", "1->3 id 2", ":7: connection 2 has several messages, first on line 6, which"),
    ("3->0 id", "3-0 id", ":8: a line must begin"),
    ("3->0 id", "3->x id", ":8: a connection must be S->D"),
    ("id 4 trigger 2", "id 4 trigger 5", ":8: trigger 5 is used"),
    ("barrier count 2", "barrier count 3", ":10: trigger 2 is a barrier of count 3, but 2"),
    ("barrier count 2", "oneshot", ":10: trigger 2 is oneshot, but 2 connections fire it"),
    ("barrier count 2", "", ":10: a trigger must have an id, and be one of"),
    (" send_done_trigger 1", "", ":6: the connection never starts: trigger 1 is fired by 0"),
    ("start 1000000 size 1000 send_done_trigger 1", "trigger 2 size 1 send_done_trigger 1",
     "dependency cycle among stages connection-1, connection-2"),
])
def test_bad_connection_matrices(written, old, new, said):
    assert CHAIN.count(old) == 1
    path = written(CHAIN.replace(old, new))
    with pytest.raises(TraceProblemsError, match=said):
        read_workload(path)
    assert check_trace(path).problems


TIERS = """\
Nodes 8
Tiers 2
Podsize 8
Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 4
Downlink_Latency_ns 1
Tier 1
Downlink_speed_Gbps 100
Radix_Down 4
Bundle 2
Downlink_Latency_ns 1
"""


def test_failures_are_events(written):
    """Link 3 of switch 1 is the second of the bundle to the second one above."""
    net = netsim.read_network(written(TIERS, "two.topo"))
    text = ("Nodes 8\nConnections 1\nFailures 1\n0->7 start 0 size 1000\n"
            "failure switch_type TOR switch_id 1 link_id 3\n")
    path = written(text)
    events = read_htsim_failures(path, net)
    assert events == [{"at": 0.0, "link": name, "kind": "fail"}
                      for name in ("tor-1->agg-1#2", "agg-1->tor-1#2")]
    with pytest.warns(NetsimWarning, match="1 failures"):
        workload = read_workload(path)
    done = netsim.simulate(net, workload, allocator="maxmin", events=events)
    assert done.jobs["finish_s"].iloc[0] > 0
    path = written(text.replace("link_id 3", "link_id 4"))
    with pytest.raises(netsim.TraceError, match=r":5: .*no link 4 of tor-1; it has 4"):
        read_htsim_failures(path, net)
    for old, new in (("TOR", "HOST"), ("link_id 3", "link 3"), (" link_id 3", "")):
        with pytest.raises(TraceProblemsError, match=":5:"):
            read_workload(written(text.replace(old, new)))


# --- the HPCC simulator ---------------------------------------------------------------------


def test_flows_of_hpcc(written):
    written("4 1 3\n0\n1 0 1Gbps 1us 0\n2 0 1Gbps 1us 0\n3 0 1Gbps 1us 0\n", "topology.txt")
    path = written("2\n3 1 3 100 1000 2.5\n2 1 3 100 2000 2\nand so on\n2 3 3 100 1 9\n",
                   "flow.txt")
    with pytest.warns(NetsimWarning) as caught:
        workload = read_workload(path, format="hpcc", topology="topology.txt")
    assert len(caught) == 2
    assert [(job.id, job.arrival_s) for job in workload] == [(1, 2.0), (0, 2.5)]
    assert [[each[0] for each in (flows.src, flows.dst, flows.nbytes)]
            for flows in (job.stages[0].flows for job in workload)] == [[1, 0, 2000], [2, 0, 1000]]


@pytest.mark.parametrize(("text", "said"), [
    ("", "empty"),
    ("x\n", ":1: the number of flows"),
    ("2\n0 1 3 100 1000 2\n", ":1: 2 flows announced, 1 found"),
    ("1\n0 1 3 100 -5 2\n", ":2: bytes must be a whole number"),
    ("1\n0 1 3 100 5\n", ":2: start is missing"),
    ("1\n0 1 3 100 5 inf\n", ":2: start must be a number"),
    ("1\n0 1 3 100 5 1e300\n", r":2: start must be a number from 0 to 1e\+100, not '1e300'"),
    ("1\n0 2 3 100 5 1\n", ":2: src 0 is not a host of the topology"),
])
def test_bad_flows_of_hpcc(written, text, said):
    written("3 1 2\n0\n1 0 1Gbps 1us 0\n2 0 1Gbps 1us 0\n", "topology.txt")
    with pytest.raises(TraceProblemsError, match=said):
        read_workload(written(text, "flow.txt"), format="hpcc",
                      **({"topology": "topology.txt"} if "not a host" in said else {}))


def test_flows_of_hpcc_are_known_by_their_first_line(tmp_path):
    """A number alone; the coflow benchmark has two of them."""
    (tmp_path / "flow.txt").write_text("1\n0 1 3 100 1000 0.5\n")
    (flow,) = netsim.read_workload(tmp_path / "flow.txt")
    assert flow.arrival_s == 0.5
    (tmp_path / "other.txt").write_text("2 1\n1 0 1 0 1 1:5\n")
    assert len(netsim.read_workload(tmp_path / "other.txt")) == 1
