"""Tables of flows: CSV and Parquet."""

import builtins
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
    with pytest.raises(TraceError, match=r"mine.csv:4: src of row 2 must be a number, not 'x'"):
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
    (TABLE.replace("1000000", "-1"), r"mine.csv:4: bytes of row 2 must be bytes from 0 to "),
    (TABLE.replace("1000000", "10 apples"), r"mine.csv:4: bytes of row 2 '10 apples'"),
    (TABLE.replace("0,1,1000000", ",x,1000000"), r"mine.csv:4: src of row 2 must be a name, or a "),
    (TABLE.replace("0,1,1000000", "0.5,1,1000000"), r"mine.csv:4: src of row 2 must be a whole"),
    (TABLE.replace("1e6,0,a\n0", "1e6,1,a\n0"), r"mine.csv:3: coflow 'a' has two starts, 0.0 s in"),
    (TABLE.replace("3,b", "3,"), r"mine.csv:4: coflow of row 2 is missing"),
    (TABLE.replace("bytes", "sized"), r"mine.csv: there is no column 'bytes' for nbytes; choose "),
    (TABLE.replace("3,b", "3,b,4"), r"mine.csv:4: 6 values, where the header has 5: '0,1,10"),
    ("src,dst,bytes\n", r"mine.csv: workload 'mine' has no flows"),
    # A line that is passed over makes lines and rows differ.
    (TABLE.replace("a\n0,1,1000000", "a\n\n0,1,-1"), r"mine.csv:5: bytes of row 2 must be"),
    # One of quotes is a row, of a value that is missing.
    ('src,dst,bytes\n0,1,5\n""\n0,1,x\n', r"mine.csv:4: bytes of row 2 'x'"),
    ('src,dst,bytes\n0,1,5\n""\n', r"mine.csv:3: src of row 1 "),
    ("src,dst,bytes\n0,1,5\n\x0b\n", r"mine.csv:3: dst of row 1 "),
    ("src\tdst\tbytes\n\t\t\n0\t1\tx\n", r"mine.csv:3: bytes of row 1 'x'"),
    # All rows are longer than the header: the first column is no index of theirs.
    ("src,dst,bytes\n0,1,5,6\n0,1,7,8\n", r"mine.csv:2: 4 values, where the header has 3"),
    ("src,dst,bytes\n0,1,5,\n0,1,7,\n", r"mine.csv:2: 4 values, where the header has 3"),
    ("src,dst,bytes,src \n0,1,5,7\n", r"mine.csv:1: 2 columns are named 'src'"),
    ("src,dst,bytes\n0,1,5\n0,1\x002,5\n", r"mine.csv:3: a NUL character"),
    ("src,dst,bytes\n0,1,1_000\n", r"mine.csv:2: bytes of row 0 '1_000'"),
    ("src,dst,bytes\n0,1,5\n0,1,\uff12\n", r"mine.csv:3: bytes of row 1 '\uff12' is not a "),
    ("src,dst,bytes\nx,1,5\n\uff12,1,5\n", r"mine.csv:3: src of row 1 must be a name, or a num"),
    ("src,dst,bytes\nx,1,5\n" + "9" * 5000 + ",1,5\n", r"mine.csv:3: src of row 1 must be a n"),
])
def test_what_is_wrong_has_its_line(table, text, message):
    with pytest.raises(TraceError, match=message):
        netsim.read_workload(table(text))


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
