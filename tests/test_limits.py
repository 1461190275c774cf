"""What a few bytes of a file may ask for: limits, how they are raised, and time in proportion."""

import gzip
import json
import zlib

import pandas as pd
import pytest

import netsim
from netsim.base.json_tree import json_problem
from netsim.base.limits import LIMITS, check_limit, limited, most
from netsim.base.units import parse_rate
from netsim.collectives import read_msccl
from netsim.errors import InputError, TraceError, UnitError, UnknownNameError
from netsim.network import make_network
from netsim.network.files import changed_name
from netsim.traces import convert
from netsim.traces.writers import write_instance
from tests.pairs import few

TOPO = """Nodes {nodes}
Tiers 2
Podsize {nodes}
Tier 0
Downlink_speed_Gbps 1
Radix_Down {down}
Radix_Up {down}
Downlink_Latency_ns 1
Tier 1
Downlink_speed_Gbps 1
Radix_Down {tors}
Downlink_Latency_ns 1
"""
EVENT = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 5, "args": {"stream": 7}}
SIMAI = ("HYBRID_TRANSFORMER model_parallel_NPU_group: 1 ep: 1 pp: {pp} vpp: 1 ga: {ga} "
         "all_gpus: {pp} pp_comm: 1\n1\na -1 5 NONE 0 5 NONE 0 5 NONE 0 0\n")
DIGITS = "9" * 300_000


@pytest.fixture
def written(tmp_path):
    def write(text, name):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path
    return write


def test_a_limit_holds_for_all_that_is_read_within_and_not_after():
    with limited({"hosts": 5}), limited({"cables": 7}):
        assert (most("hosts"), most("cables", 99), most("flows")) == (
            5, 7, LIMITS["flows"].most)
        with pytest.raises(TraceError, match=r"f:3: Nodes: 6 is above the limit of 5 hosts .*; "
                                             r"limits = \{hosts = ...\} allows more"):
            check_limit("hosts", 6, "f", 3, where="Nodes")
    assert (most("hosts"), most("cables", 99)) == (LIMITS["hosts"].most, 99)


def test_what_is_no_limit():
    with pytest.raises(UnknownNameError, match=r"unknown limit 'host' .*choose from"):
        netsim.read_workload(format="synthetic", jobs=1, limits={"host": 5})
    with pytest.raises(InputError, match="limits: hosts must be a whole number of at least 1"):
        make_network("ring", hosts=5, limits={"hosts": 0})
    with pytest.raises(InputError, match="limits must be a table of numbers by name"):
        make_network("ring", hosts=5, limits=7)


# --- networks -----------------------------------------------------------------------------


def test_networks_of_a_few_bytes(written):
    """16 hosts below 4 switches, with 4 links each to 4 spines, have 32 cables."""
    path = written(TOPO.format(nodes=10**6, down=1000, tors=1000), "n.topo")
    with pytest.raises(TraceError, match=r"n.topo: the network: 2,000,000 is above the limit of "
                                         "500,000 cables of a network; limits = "):
        netsim.read_network(path)
    path = written(TOPO.format(nodes=16, down=4, tors=4), "n.topo")
    with pytest.raises(TraceError, match=r"n.topo:1: Nodes: 16 is above the limit of 15 hosts"):
        netsim.read_network(path, limits={"hosts": 15})
    made = netsim.read_network(path, limits={"hosts": 16, "cables": 32})
    assert (made.hosts, made.links, made.name) == (16, 64, "n")


def test_networks_of_a_table(written):
    path = written('kind = "torus"\nshape = [1000, 1000]\n', "n.toml")
    with pytest.raises(TraceError, match="the network: 2,000,000 is above the limit of 500,000 "):
        netsim.read_network(path)
    path = written('kind = "ring"\nhosts = 5\nlimits = {cables = 4}\n', "n.toml")
    with pytest.raises(TraceError, match="the network: 5 is above the limit of 4 cables"):
        netsim.read_network(path)
    assert netsim.read_network(path, limits={"cables": 5}).hosts == 5
    with pytest.raises(InputError, match="hosts: 2,000,000 is above the limit of 1,000,000"):
        make_network("big-switch", hosts=2_000_000)


def test_paths_on_a_switch_of_gpus_are_as_many_as_pairs(written):
    text = "4 4 1 0 3 A100\n3\n" + "".join(f"{k} 3 1Gbps 1us 0\n" for k in range(3))
    path = written(text, "n.txt")
    with pytest.raises(TraceError, match="9 is above the limit of 8 paths"):
        netsim.read_network(path, limits={"paths": 8})
    assert netsim.read_network(path).hosts == 3


# --- workloads ----------------------------------------------------------------------------


def test_jobs_of_htsim_share_their_hosts(written):
    """Those of each job were a tuple of its own: a gigabyte for a hundred jobs."""
    lines = "".join(f"0->{999_999 - k} id {k + 1} start 0 size 5\n" for k in range(100))
    text = f"Nodes 1000000\nConnections 100\nTriggers 1\n{lines}trigger id 1 oneshot\n"
    jobs = netsim.read_workload(written(text, "t.cm")).jobs
    assert {job.ranks for job in jobs} == set(range(999_901, 1_000_001))
    assert all(job.hosts is jobs[0].hosts for job in jobs)
    path = written(text.replace("Nodes 1000000", "Nodes 1000001"), "t.cm")
    with pytest.raises(TraceError, match=r"t.cm:1: Nodes: 1,000,001 is above the limit of 1,000,0"):
        netsim.read_workload(path)
    assert len(netsim.read_workload(path, limits={"hosts": 2_000_000})) == 100


@pytest.mark.filterwarnings("ignore:.*have no launch")
@pytest.mark.parametrize(("text", "name", "limit"), [
    ("8 1\n1 0 2 0 1 3 2:1 3:1 4:1\n", "t.txt", "6 is above the limit of 5 flows"),
    ("9 1\n1 0 1 0 1 2:1\n", "t.txt", "t.txt:1: ports must be .* to 8, not '9'; limits = .ports"),
    (json.dumps({"jobs": [{"coflows": [[{"src": 0, "dst": 8, "bytes": 5}]]}]}), "t.json",
     "must be a whole number from 0 to 7, not 8; limits = .ports"),
    (SIMAI.format(pp=6, ga=1), "t.txt", "6 is above the limit of 5 ranks"),
    (SIMAI.format(pp=2, ga=6), "t.txt", "t.txt:1: ga x vpp: 6 is above the limit of 5 steps"),
    ("1\n0 8 3 1 5 0\n", "t.txt", "t.txt:2: dst: 8 is above the limit of 7 hosts"),
    (gzip.compress(json.dumps({"traceEvents": [EVENT]}).encode(), mtime=0), "t.json.gz",
     "is above the limit of 50 bytes of a compressed file when it is unpacked"),
])
def test_workloads_of_a_few_bytes(written, text, name, limit):
    path = written(text, name)
    low = {"flows": 5, "ports": 8, "ranks": 5, "steps": 5, "hosts": 7, "bytes": 50}
    with pytest.raises(TraceError, match=limit):
        netsim.read_workload(path, limits=low)
    assert len(netsim.read_workload(path, limits=dict.fromkeys(low, 10**6))) == 1


@pytest.mark.parametrize(("megabytes", "limits", "said"), few([
    (48, {"bytes": 2**25}, "33,554,433 is above the limit of 33,554,432 bytes"),
    (640, None, "536,870,913 is above the limit of 536,870,912 bytes")], 1))
def test_a_file_that_grows_a_thousandfold_is_refused_before_it_is_whole(
        written, megabytes, limits, said):
    made = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [made.compress(b" " * 2**24) for _ in range(megabytes // 16)]
    path = written(b"".join([*parts, made.flush()]), "t.json.gz")
    with pytest.raises(TraceError, match=said):
        netsim.read_workload(path, limits=limits)


def test_copies_are_counted_before_they_are_made(written):
    """Each rank has 2 nodes: the event, and the delay before it; with two files, all are made."""
    paths = [written(json.dumps({"traceEvents": [EVENT], "distributedInfo": {
        "rank": rank, "world_size": 5}}), f"{rank}.json") for rank in range(2)]
    for limits, said in (({"ranks": 4}, "world_size: 5 is above the limit of 4 ranks"),
                         ({"operations": 9}, "10 is above the limit of 9 operations")):
        with (pytest.warns(netsim.NetsimWarning, match="no launch"),
              pytest.raises(TraceError, match=said)):
            netsim.read_workload(paths[0], format="kineto", others=paths[1:], copies=True,
                                 limits=limits)
    with pytest.warns(netsim.NetsimWarning, match="no launch"):
        assert netsim.read_workload(paths[0], format="kineto", others=paths[1:],
                                    copies=True)[0].ranks == 5


def test_parquet_is_not_read_if_it_has_too_many_cells(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pd.DataFrame({"src": [0] * 4, "dst": [1] * 4, "nbytes": [5] * 4}).to_parquet(path)
    with pytest.raises(TraceError, match=r"t.parquet: 12 is above the limit of 11 cells"):
        netsim.read_workload(path, limits={"cells": 11})
    assert len(netsim.read_workload(path, limits={"cells": 12})) == 4


def test_workload_files_raise_limits(written):
    written("9 1\n1 0 2 0 1 3 2:1 3:1 4:1\n", "t.txt")
    path = written('file = "t.txt"\nformat = "coflow-benchmark"\nlimits = {flows = 5}\n', "w.toml")
    with pytest.raises(TraceError, match="6 is above the limit of 5 flows"):
        netsim.read_workload(path)
    assert len(netsim.read_workload(path, limits={"flows": 6})) == 1


def test_programs_of_huge_counts(written):
    """Counts are numbers and no lists; results of so many chunks are not checked by default."""
    gpu = ('<gpu id="{}"><tb id="0" send="{}" recv="{}" chan="0"><step s="0" type="{}" srcbuf="i" '
           'srcoff="0" dstbuf="o" dstoff="0" cnt="1"/></tb></gpu>')
    both = gpu.format(0, 1, 1, "s") + gpu.format(1, 0, 0, "r")
    text = '<algo name="a" ngpus="{}" nchunksperloop="{}" coll="allreduce">{}</algo>'
    with pytest.raises(TraceError, match="ids of GPUs must be 0 to 99999999999999: gpu 2 is miss"):
        read_msccl(written(text.format(10**14, 1, both), "a.xml"))
    assert read_msccl(written(text.format(2, 10**14, both), "b.xml")).ranks == 2
    with pytest.raises(TraceError, match="wrong result"):
        read_msccl(written(text.format(2, 1, both), "c.xml"))


# --- time in proportion -------------------------------------------------------------------


@pytest.mark.parametrize(("text", "name", "said"), [
    (f"5 1\n1 0 {DIGITS}x 0 1 1:10\n", "t.txt", r"t.txt:2: m, the number of mappers, must be"),
    (f"Nodes 2\nConnections 1\n0->1 start {DIGITS}x size 5\n", "t.cm", r"t.cm:3: start must be"),
    ("[" * 6000 + '"' + '\\"' * 200_000, "t.json", r"t.json:1: not read as JSON: "),
], ids=["coflow-benchmark", "htsim", "json"])
def test_long_words_take_time_in_proportion(written, text, name, said):
    """Going back over N digits or quotes took N^2/2 steps: hours for these."""
    with pytest.raises(TraceError, match=said):
        netsim.read_workload(written(text, name))


@pytest.mark.parametrize("text", [
    DIGITS + "x\n9", "9" + " " * 300_000 + "\n9", "9 x" + " " * 300_000 + "\nx",
    "1" + "x" * 300_000, "9." + DIGITS + "x\n", "٣Gbps"],
    ids=["digits", "spaces", "spaces-after-a-unit", "unit", "decimals", "arabic"])
def test_long_quantities_take_time_in_proportion(text):
    with pytest.raises(UnitError):
        parse_rate(text, "rate")


def test_names_of_many_brackets():
    """Each opening bracket was the beginning of a list of changes that never ends."""
    name = " (a=" * 100_000
    assert changed_name(name, {"x": 1}) == f"{name} (x=1)"
    assert json_problem(RecursionError(), "[[1, 2").message.startswith("not read as JSON: 2 ")


def test_picoseconds_of_more_digits_than_an_integer_may_have(written):
    """5,000 zeros behind the point are less than the smallest float."""
    text = "Nodes 2\nConnections 2\n0->1 start 0.{}1 size 9\n0->1 start {}.5e3 size 9\n"
    jobs = netsim.read_workload(written(text.format("0" * 5000, "123456789012345678"), "t.cm"))
    assert [job.arrival_s for job in jobs] == [0.0, 123456789.0123456785]


def test_what_was_read_with_raised_limits_can_be_written(tmp_path):
    """Writing has no limit: the jobs are there."""
    job = netsim.JobSpec(0, hosts=[0, 149_999], stages=[netsim.Stage("c0", [(0, 1, 5)])])
    one, other = tmp_path / "one.json", tmp_path / "other.txt"
    write_instance(netsim.Workload([job]), one, network={"hosts": 150_000})
    with pytest.raises(TraceError, match=r"limits = \{ports"):
        netsim.read_workload(one)
    assert len(convert(one, other, limits={"ports": 200_000})) == 1
    assert netsim.read_workload(other, limits={"ports": 200_000})[0].hosts[-1] == 149_999
    with pytest.raises(InputError, match="has a host that is not from 0 to 149998"):
        write_instance(netsim.Workload([job]), one, network={"hosts": 149_999})
