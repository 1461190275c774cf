"""Tables of flows: CSV and Parquet."""

import builtins
import re
import warnings
from decimal import Decimal

import networkx as nx
import pandas as pd
import pytest

import netsim
from netsim.errors import InputError, MissingExtraError, NetsimWarning, TraceError

#: Two flows of one shuffle, and a third that starts when they have ended.
TABLE = """src,dst,bytes,start_s,coflow
0,2,1e6,0,a
1,2,1e6,0,a
0,1,1000000,3,b
"""


@pytest.fixture
def table(tmp_path):
    """Write a table, and return its path."""
    def write(text, name="mine.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name
    return write


def test_a_csv_file_with_sources_and_destinations_is_of_flows(table):
    """At 1 MB/s host 2 receives the 2 MB of a until 2; b sends 1 MB from 3 to 4."""
    workload = netsim.read_workload(table(TABLE))
    assert workload.name == "mine"
    jobs = netsim.simulate(netsim.big_switch(3, "8Mbps"), workload).jobs
    assert jobs[["name", "finish_s"]].to_numpy().tolist() == [["a", 2.0], ["b", 4.0]]


def test_columns_of_other_names(table):
    """Each flow is a coflow of its own where no column of coflows is named, as `coflow` is not."""
    path = table(TABLE.replace("src,dst,bytes,start_s,coflow", "from,to,size,at,shuffle"))
    with pytest.raises(TraceError, match=r"src='from', dst='to', nbytes='size', start='at'"):
        netsim.read_workload(path)
    workload = netsim.read_workload(path, format="flows", src="from", dst="to", nbytes="size",
                                    start="at")
    assert [job.arrival_s for job in workload] == [0, 0, 3]
    assert len(netsim.read_workload(path, format="flows", src="from", dst="to", nbytes="size",
                                    start="at", coflow="shuffle")) == 2


def test_sizes_and_starts_with_units(table):
    """The same as without, in bytes and seconds."""
    path = table(TABLE.replace("1000000,3", "1MB,3000ms").replace("1e6", "1000kB"))
    job = netsim.read_workload(path).jobs[-1]
    assert (job.arrival_s, job.stages[0].flows.nbytes.tolist()) == (3, [1e6])


def test_ranks_are_placed_by_the_run(table):
    """As by `from_frame`; names are those of hosts."""
    path = table(TABLE)
    assert [(job.hosts, job.ranks) for job in netsim.read_workload(path, endpoints="ranks")] == [
        (None, 3), (None, 2)]
    with pytest.raises(TraceError, match=r"mine.csv:4: src must be a number, not 'x'"):
        netsim.read_workload(table(TABLE.replace("0,1,1000000", "x,1,1000000")), endpoints="ranks")


def star_of_numbers():
    """Return a star around switch 0 with the hosts 1, 2 and 3, whose numbers are 0, 1 and 2."""
    graph = nx.Graph([(0, host) for host in (1, 2, 3)])
    return netsim.from_networkx(graph, capacity="8Mbps", name="star")


def sent_between(workload):
    flows = netsim.simulate(star_of_numbers(), workload, record=["flows"]).flows
    return list(zip(flows["src_name"], flows["dst_name"], strict=True))


def test_nodes_that_are_numbers_are_named_by_them(table):
    path = table("start_s,src,dst,bytes\n0,1,2,1000000\n0,3, 1,1000000\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sent_between(netsim.read_workload(path, endpoints="names"))
        assert found == [("1", "2"), ("3", "1")]
        frame = pd.read_csv(path)
        assert sent_between(netsim.Workload.from_frame(frame, endpoints="names")) == found
        as_text = frame.astype({"src": str, "dst": str})
        assert sent_between(netsim.Workload.from_frame(as_text)) == found


def test_names_may_be_digits_and_underscores(table):
    """Of a pod and a host in it, say."""
    graph = nx.star_graph(["switch", "0_0", "1_0"])
    net = netsim.from_networkx(graph, capacity="8Mbps", hosts=["0_0", "1_0"])
    flows = netsim.read_workload(table("src,dst,bytes\n0_0,1_0,1e6\n"))
    assert netsim.simulate(net, flows).jobs["finish_s"].tolist() == [1.0]


def test_a_number_that_names_another_node_is_warned_of(table):
    """Host 1 is the one that is named 2, and 0 is no name of a host; so are those of jobs."""
    path = table("start_s,src,dst,bytes\n0,1,2,1000000\n")
    job = netsim.JobSpec(0, hosts=(1, 2), stages=[netsim.Stage("send", [(0, 1, 1e6)])])
    for workload in (netsim.read_workload(path), netsim.Workload([job])):
        with pytest.warns(NetsimWarning, match="1 is taken for the host with this number, which "
                                               "is named '2', and not for the node named '1'"):
            assert sent_between(workload) == [("2", "3")]


def test_parquet_is_as_csv(table, tmp_path):
    pytest.importorskip("pyarrow")
    path = table(TABLE)
    pd.read_csv(path).to_parquet(tmp_path / "mine.parquet")
    one, other = (netsim.simulate(netsim.big_switch(3, "8Mbps"), str(each)).coflows
                  for each in (path, tmp_path / "mine.parquet"))
    assert one.equals(other)


@pytest.mark.parametrize("text", [
    TABLE.replace(",", ";"), TABLE.replace(",", "\t"), TABLE.replace(",", " ,"),
    TABLE.replace("\n", " \n"), TABLE.replace(",", ", "), " \n\n" + TABLE.replace(",", ";"),
    TABLE.replace("\n", ',"note; a; b; c; d; e"\n')])
def test_what_separates_columns(table, text):
    """Semicolons, tabs, and commas with spaces before or after them, also in the header.

    Neither blank lines nor what is in quotes says which it is.
    """
    one, other = (netsim.simulate(netsim.big_switch(3, "8Mbps"), str(table(each, name))).coflows
                  for each, name in ((TABLE, "one.csv"), (text, "other.csv")))
    assert one.equals(other)


@pytest.mark.parametrize("index", [["src"], ["src", "dst"], ["coflow"]])
def test_an_index_with_a_name_is_a_column(table, tmp_path, index):
    pytest.importorskip("pyarrow")
    path = table(TABLE)
    frame = pd.read_csv(path).set_index(index)
    frame.to_parquet(tmp_path / "mine.parquet")
    wanted, *others = (netsim.simulate(netsim.big_switch(3, "8Mbps"), each).coflows for each in (
        str(path), str(tmp_path / "mine.parquet"), netsim.Workload.from_frame(frame, name="mine")))
    assert all(each.equals(wanted) for each in others)


def test_decimals_are_numbers(tmp_path):
    """As databases give them: 1.5 MB at 1 MB/s, from 0.5 s on; and labels that are ids."""
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"src": [Decimal(0)], "dst": [Decimal(1)], "nbytes": [Decimal("1.5e6")],
                          "start_s": [Decimal("0.5")], "job": [Decimal(7)]})
    frame.to_parquet(tmp_path / "d.parquet")
    for workload in (netsim.Workload.from_frame(frame),
                     netsim.read_workload(tmp_path / "d.parquet")):
        done = netsim.simulate(netsim.big_switch(2, "8Mbps"), workload)
        assert done.jobs[["job", "finish_s"]].to_numpy().tolist() == [[7, 2.0]]
    one = netsim.Workload.from_arrays([Decimal(0)], [Decimal(1)], Decimal("1.5e6"), Decimal("0.5"))
    assert netsim.simulate(netsim.big_switch(2, "8Mbps"), one).jobs["finish_s"].tolist() == [2.0]
    with pytest.raises(InputError, match=r"nbytes of row 0 must be bytes from 0 .*, not nan"):
        netsim.Workload.from_arrays([0], [1], [Decimal("NaN")])


@pytest.mark.parametrize(("text", "message"), [
    (TABLE.replace("1000000", "-1"), r"mine.csv:4: bytes must be bytes from 0 to "),
    (TABLE.replace("1000000", "10 apples"), r"mine.csv:4: bytes '10 apples'"),
    (TABLE.replace("0,1,1000000", ",x,1000000"), r"mine.csv:4: src must be a name, or a "),
    (TABLE.replace("0,1,1000000", "0.5,1,1000000"), r"mine.csv:4: src must be a whole"),
    (TABLE.replace("1e6,0,a\n0", "1e6,1,a\n0"), r"mine.csv:3: coflow 'a' has two starts, 0.0 s in"),
    (TABLE.replace("3,b", "3,"), r"mine.csv:4: coflow is missing"),
    (TABLE.replace("bytes", "sized"), r"mine.csv: there is no column 'bytes' for nbytes; choose "),
    (TABLE.replace("3,b", "3,b,4"), r"mine.csv:4: 6 values, where the header has 5: '0,1,10"),
    ("src,dst,bytes\n", r"mine.csv: workload 'mine' has no flows"),
    (TABLE.replace("0,1,1000000", "0,1,-1").replace("2,1e6", "2,x", 1),
     r"mine.csv:2: bytes 'x' is .* \(and 1 more\)"),
    # A line that is passed over makes lines and rows differ.
    (TABLE.replace("a\n0,1,1000000", "a\n\n0,1,-1"), r"mine.csv:5: bytes must be"),
    # One of quotes is a row, of a value that is missing.
    ('src,dst,bytes\n0,1,5\n""\n0,1,x\n', r"mine.csv:3: src must be .*, not nan \(and 1 more\)"),
    ('src,dst,bytes\n0,1,5\n""\n', r"mine.csv:3: src "),
    ("src,dst,bytes\n0,1,5\n\x0b\n", r"mine.csv:3: dst "),
    ("src\tdst\tbytes\n\t\t\n0\t1\tx\n", r"mine.csv:2: src must be .*, not nan \(and 1 more\)"),
    # All rows are longer than the header: the first column is no index of theirs.
    ("src,dst,bytes\n0,1,5,6\n0,1,7,8\n", r"mine.csv:2: 4 values, where the header has 3"),
    ("src,dst,bytes\n0,1,5,\n0,1,7,\n", r"mine.csv:2: 4 values, where the header has 3"),
    ("src,dst,bytes,src \n0,1,5,7\n", r"mine.csv:1: 2 columns are named 'src'"),
    ("src,dst,bytes\n0,1,5\n0,1\x002,5\n", r"mine.csv:3: a NUL character"),
    ("src,dst,bytes\n0,1,1_000\n", r"mine.csv:2: bytes '1_000'"),
    ("src,dst,bytes\n0,1,5\n0,1,\uff12\n", r"mine.csv:3: bytes '\uff12' is not a "),
    ("src,dst,bytes\nx,1,5\n\uff12,1,5\n", r"mine.csv:3: src must be a name, or a num"),
    ("src,dst,bytes\nx,1,5\n" + "9" * 5000 + ",1,5\n", r"mine.csv:3: src must be a n"),
])
def test_what_is_wrong_has_its_line(table, text, message):
    with pytest.raises(TraceError, match=message):
        netsim.read_workload(table(text))


def test_all_rows_that_are_wrong_are_told(table):
    """A row with a coflow that has two starts is one of them, by the lines of both starts."""
    path = table("src,dst,bytes,start_s,coflow\n0,1,5,0,a\n\n0,1,-4,0,b\n0,1,abc,0,b\n0,1\n"
                 "1,2,5,2,a\n0,x.5,5,1,b\n")
    report = netsim.check_trace(path)
    assert [line for line, _ in report.problems] == [4, 5, 6, 7]
    told = [message for _, message in report.problems]
    assert told[0].startswith("bytes must be bytes from 0 to ")
    assert told[3] == (
        "coflow 'a' has two starts, 0.0 s in line 2 and 2.0 s in line 7; its flows must have the "
        "same. For the first of them, in pandas: table['start_s'] = table.groupby('coflow')"
        "['start_s'].transform('min')")
    assert not any(" row " in message for message in told)
    long = netsim.check_trace(table("src,dst,bytes\n0,1,5,6\n0,1,7\n0,1,7,8\n"))
    assert [line for line, _ in long.problems] == [2, 4]


def test_errors_are_listed_to_a_limit(table):
    report = netsim.check_trace(table("src,dst,bytes\n" + "0,1,-1\n" * 30))
    assert [line for line, _ in report.problems] == [*range(2, 22), None]
    assert report.problems[-1].message == "not all errors are listed, but 20"


def test_rows_of_a_parquet_file_are_those_of_the_file(table, tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"src": 0, "dst": 1, "bytes": [-1.0, 5.0, -1.0]})
    frame.to_parquet(tmp_path / "p.parquet")
    report = netsim.check_trace(tmp_path / "p.parquet")
    assert [message.partition(" must")[0] for _, message in report.problems] == [
        "bytes of row 0", "bytes of row 2"]


def test_a_column_that_is_named_wrongly_is_told_by_its_name(table):
    """Not as a table whose columns have other names: the others are there."""
    path = table("src,dst,bytes,start\n0,1,1e6,0\n")
    with pytest.raises(TraceError, match=r"there is no column 'begin' for start; choose from: "
                       r"'src', 'dst', 'bytes', 'start' \(did you mean start='start'\?\)"):
        netsim.read_workload(path, format="flows", start="begin")
    path = table("src,dst,bytes,begun\n0,1,1e6,0\n")
    with pytest.raises(TraceError, match=r"no column 'begin' .* \(did you mean 'begun'\?\)"):
        netsim.read_workload(path, start="begin")


@pytest.mark.parametrize("columns", [
    {}, {"start_s": [1.0]}, {"at": [1.0]}, {"nothing": [1.0]}])
@pytest.mark.parametrize("options", [{}, {"start": None}])
def test_starts_are_alike_in_files_and_frames(tmp_path, columns, options):
    """Without a column of starts, all flows start at 0; one that looks like it must be named."""
    frame = pd.DataFrame({"src": [0], "dst": [1], "bytes": 1e6, **columns})
    frame.to_csv(tmp_path / "mine.csv", index=False)

    def starts(read):
        try:
            return [job.arrival_s for job in read(**options)]
        except InputError as error:
            return re.search("start='at'", str(error))[0]

    found = starts(lambda **more: netsim.Workload.from_frame(frame, **more))
    assert found == starts(lambda **more: netsim.read_workload(tmp_path / "mine.csv", **more))
    assert found == ([0] if options else "start='at'" if "at" in columns else
                     [1] if "start_s" in columns else [0])


def test_a_check_says_what_is_read_and_asks_for_units(table):
    """Three megabytes, read as 3 bytes; again in the same process."""
    path = table("src,dst,MB,start_ms\n0,1,2,0\n1,2,3,5\n")
    for _ in range(2):
        report = netsim.check_trace(path, "flows", nbytes="MB")
        assert report.columns == {"src": "src", "dst": "dst", "nbytes": "MB"}
        assert report.unused == ("start_ms",)
        assert [message for _, message in report.notices] == [
            'the largest MB = 3.0 has no unit and is read as 3 bytes; write "3B" if this is meant, '
            'otherwise add the unit, as in "40MB"']
    for text in (TABLE, TABLE.replace("1000000", "2kB").replace("1e6", "3")):
        report = netsim.check_trace(table(text))
        assert (report.unused, report.notices) == ((), ())
        assert report.columns["coflow"] == "coflow"


def test_what_is_no_parquet_file(table):
    pytest.importorskip("pyarrow")
    with pytest.raises(TraceError, match=r"mine.parquet: is not read as Parquet: "):
        netsim.read_workload(table(TABLE, "mine.parquet"))


def test_parquet_without_pyarrow(table, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[parquet\]'"):
        netsim.read_workload(table(TABLE, "mine.parquet"))


def test_an_unknown_option(table):
    with pytest.raises(InputError, match=r"unknown flows option 'sorce'"):
        netsim.read_workload(table(TABLE), sorce="src")


def test_text_of_a_cell_is_not_taken_for_a_row(tmp_path):
    (tmp_path / "f.csv").write_text("src,dst,nbytes\n0,1,x in row 99\n")
    with pytest.raises(netsim.TraceError, match="x in row 99"):
        netsim.read_workload(tmp_path / "f.csv", format="flows")
