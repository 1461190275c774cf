"""Outputs of nccl-tests and tables of measured times."""

from pathlib import Path

import numpy as np
import pytest

from netsim.errors import InputError, TraceError
from netsim.traces.measured import read_measured

FILE = Path(__file__).parent / "measured" / "all_reduce_4x1.txt"


def test_output_of_nccl_tests():
    """Sizes, times out of place in seconds, and a server per host; the log's line is skipped."""
    (found,) = read_measured(FILE)
    assert (found.source, found.collective, found.ranks, found.per_server) == (
        FILE.name, "all-reduce", 4, 1)
    assert found.servers.tolist() == [0, 1, 2, 3]
    assert found.nbytes.tolist() == [8, 64, 512, 4096, 32768, 2**18, 2**21, 2**24, 2**26]
    np.testing.assert_allclose(found.seconds[[0, -1]], [20e-6, 2536.6e-6], rtol=1e-15)


def written(tmp_path, text, name="some.txt"):
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("tag", ["[1,0]<stdout>: ", "[1,3]<stdout>:", "0: ", "   0: ", "[0] ",
                                 "[prterun-host-1@1,0]<stdout>: ", "2026-11-29T12:00:00.5Z ",
                                 "\x1b[32m"])
def test_tags_of_launchers(tmp_path, tag):
    text = "".join(tag + line for line in FILE.read_text().splitlines(keepends=True))
    (found,) = read_measured(written(tmp_path, text))
    assert (found.collective, len(found.nbytes)) == ("all-reduce", 9)


def test_several_runs_in_one_file(tmp_path):
    found = read_measured(written(tmp_path, 2 * FILE.read_text()))
    assert [each.collective for each in found] == ["all-reduce"] * 2


def test_two_tests_in_one_file(tmp_path):
    head, _, _ = FILE.read_text().partition("           8 ")
    row = "1000000 250000 float none -1 100.0 10.00 7.50 0 100.0 10.0 7.5 0\n"
    other = head.replace("all_reduce_perf", "all_gather_perf") + row
    found = read_measured(written(tmp_path, FILE.read_text() + other))
    assert [each.collective for each in found] == ["all-reduce", "all-gather"]


def test_outputs_of_other_versions(tmp_path):
    """Without lines of ranks; with CPU time; and with errors instead of wrong values, checked."""
    bare = "".join(line for line in FILE.read_text().splitlines(keepends=True)
                   if "Rank" not in line).replace("   time ", "cputime ")
    (found,) = read_measured(written(tmp_path, bare), ranks=4, per_server=2)
    assert (found.servers.tolist(), len(found.nbytes)) == ([0, 0, 1, 1], 9)
    head, _, _ = NAMELESS.partition("           8 ")
    row = "1000000 250000 float none -1 100.0 10.00 7.50 0e+00 100.0 10.0 7.5 0e+00\n"
    (found,) = read_measured(written(tmp_path, head.replace("#wrong", " error") + row))
    assert found.collective == "all-gather"


def test_small_sizes_have_bandwidths_of_two_decimals(tmp_path):
    """Up to 512 bytes: 0.03 and 0.04 GB/s, where 1.5 times 0.026 is 0.038."""
    lines = FILE.read_text().splitlines(keepends=True)
    (found,) = read_measured(written(tmp_path, "".join(lines[:16])))
    assert (found.collective, len(found.nbytes)) == ("all-reduce", 3)


def test_ranks_of_a_server(tmp_path):
    """Two GPUs of each host; the lines of ranks are in any order."""
    text = FILE.read_text()
    for rank, host, device in ((0, "a", 0), (1, "a", 1), (2, "b", 0), (3, "b", 1)):
        text = text.replace(f"on     node-{'abcd'[rank]} device  0", f"on     n-{host} device  "
                            f"{device}")
    lines = text.splitlines(keepends=True)
    (found,) = read_measured(written(tmp_path, "".join([*lines[:4], *lines[7:3:-1], *lines[8:]])))
    assert (found.servers.tolist(), found.per_server) == ([0, 0, 1, 1], 2)


def test_hosts_whose_names_were_left_out(tmp_path):
    """A device occurs once per server, even if all have one name."""
    text = FILE.read_text()
    for name in "abcd":
        text = text.replace(f"node-{name} device", "host device")
    (found,) = read_measured(written(tmp_path, text))
    assert found.servers.tolist() == [0, 1, 2, 3]


NAMELESS = FILE.read_text().split("\n", 1)[1]


@pytest.mark.parametrize(("name", "reduction", "rest", "factor", "expected"), [
    ("x.txt", "sum      -1", "0", 1.5, "all-reduce"),
    ("x.txt", "sum      -1", "0", 0.75, "reduce-scatter"),
    ("x.txt", "sum       0", "0", 1, "reduce"), ("x.txt", "none      0", "0", 1, "broadcast"),
    ("x.txt", "none     -1", "0", 0.75, "all-gather"),
    ("x.txt", "none     -1", "0", 1, "send-recv"),
    ("h100_alltoall_8.txt", "none     -1", "N/A", 0.75, "all-to-all"),
    ("h100_all_gather.txt", "none     -1", "N/A", 0.75, "all-gather"),
])
def test_which_collective(tmp_path, name, reduction, rest, factor, expected):
    """By the reduction, the root and the ratio of bandwidths; else by the name of the file."""
    head, _, _ = NAMELESS.partition("           8 ")
    row = f"1000000 250000 float {reduction} 100.0 10.00 {10 * factor:.2f} 0 100.0 10.0 10.0 {rest}"
    (found,) = read_measured(written(tmp_path, f"{head}{row}\n", name))
    assert found.collective == expected


def test_what_does_not_say_which_collective(tmp_path):
    """Neither was checked in place: an all-gather, or an all-to-all."""
    head, _, _ = NAMELESS.partition("           8 ")
    row = "1000000 250000 float none -1 100.0 10.00 7.50 N/A 100.0 10.0 7.5 N/A"
    path = written(tmp_path, f"{head}{row}\n")
    with pytest.raises(TraceError, match=r"which collective .* all-gather or all-to-all; give"):
        read_measured(path)
    assert read_measured(path, collective="all-to-all")[0].collective == "all-to-all"
    with pytest.raises(TraceError, match="is about broadcast, but its table looks like all-gather"):
        read_measured(path, collective="broadcast")


@pytest.mark.parametrize(("change", "says"), [
    (("#  Rank  2 Group", "#  Rnk  2 Group"), "has no lines '# Rank 0 .* give ranks"),
    (("sum      -1    98.64   21.26   31.89      0    98.00   21.40   32.10      0", "sum -1 98"),
     "the row has 6 values, not 13"),
    (("Rank  2 Group  0", "Rank  2 Group  1"), "ranks are in several groups"),
    (("20.00    0.00    0.00", "20.o0    0.00    0.00"), "time must be a number"),
    (("# Collective test starting: all_reduce_perf", "# reduce_scatter_perf"),
     "is about reduce-scatter, but its table looks like all-reduce"),
    (("#       size", "#       sizes"), "has neither a table of nccl-tests nor the header"),
])
def test_outputs_that_cannot_be_read(tmp_path, change, says):
    text = FILE.read_text()
    assert change[0] in text
    with pytest.raises(TraceError, match=says):
        read_measured(written(tmp_path, text.replace(*change)))


def test_table_of_collectives(tmp_path):
    """Bytes and seconds may have units; a measurement per collective, ranks and servers."""
    found = read_measured(written(tmp_path, """collective,ranks,per_server,bytes,seconds
all-reduce,4,2,1MB,10us
all_reduce,4,2,2000000,2e-5
all-gather,2,2,1MB,5us
""", "times.csv"))
    assert [(each.collective, each.servers.tolist(), each.nbytes.tolist()) for each in found] == [
        ("all-reduce", [0, 0, 1, 1], [1e6, 2e6]), ("all-gather", [0, 0], [1e6])]
    assert np.concatenate([each.seconds for each in found]) == pytest.approx([1e-5, 2e-5, 5e-6])


def test_table_of_flows(tmp_path):
    (found,) = read_measured(written(tmp_path, """src,dst,bytes,begin_s,end_s
0,1,1MB,5,5.5
2,1,2MB,6,7
""", "flows.csv"))
    assert (found.collective, found.pairs, found.ranks) == ("flows", ((0, 1), (2, 1)), 3)
    assert (found.begin_s.tolist(), found.seconds.tolist()) == ([0, 1], [0.5, 1])


@pytest.mark.parametrize(("text", "says"), [
    ("collective,ranks,bytes\nall-reduce,4,1\n", "has no column 'seconds'"),
    ("collective,ranks,bytes,seconds,x\n", "unknown column 'x'; choose from: collective"),
    ("collective,ranks,bytes,seconds\nall-reduced,4,1,1\n", r":2: .*did you mean 'all-reduce'"),
    ("collective,ranks,bytes,seconds\nall-reduce,1,1,1\n", ":2: ranks must be"),
    ("collective,ranks,bytes,seconds\nall-reduce,4,0,1\n", ":2: bytes must be"),
    ("collective,ranks,bytes,seconds\nall-reduce,4,1,nan\n", ":2: seconds must be"),
    ("collective,ranks,bytes,seconds\nall-reduce,4,1\n", ":2: has 3 values, not 4"),
    ("src,dst,bytes,begin_s,end_s\n0,1,5,2,2\n", ":2: end_s must be after begin_s, not 2"),
    ("src,dst,bytes,begin_s,end_s\n", "has no rows"),
    ("", "the file is empty"), ("a,b\n1,2\n", "has neither a table"),
])
def test_tables_that_cannot_be_read(tmp_path, text, says):
    with pytest.raises(TraceError, match=says):
        read_measured(written(tmp_path, text, "times.csv"))


def test_a_collective_that_is_none(tmp_path):
    with pytest.raises(InputError, match="did you mean"):
        read_measured(FILE, collective="all-reduc")
