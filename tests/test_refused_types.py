"""Values of types that nobody expects are refused by errors of netsim's, without warnings."""

from decimal import Decimal

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import simpy

import netsim
from netsim.errors import InputError, TraceError, UnknownNameError
from tests.offenders import check_each

PAIR = {"src": [0, 1], "dst": [1, 2]}


@pytest.fixture
def job():
    return netsim.JobSpec(0, stages=[netsim.Stage("a", [(0, 1, 5)])])


@pytest.fixture
def fabric():
    return netsim.Fabric(simpy.Environment(), netsim.ring(4))


@pytest.mark.parametrize("name", ["\ud800", 5])
def test_names_that_tables_cannot_hold(name, fabric):
    for call in (lambda: fabric.transfer(0, 1, 5, name=name), lambda: fabric.job(name),
                 lambda: netsim.Stage(name, [(0, 1, 5)])):
        with pytest.raises(InputError, match="must be a string"):
            call()


def test_names_of_hosts_that_results_cannot_be_written_with(fabric, tmp_path):
    graph = nx.Graph()
    graph.add_edge("\ud800", "b", capacity=1e6)
    path = tmp_path / "g.json"
    path.write_text('{"graph": {}, "nodes": [{"id": "\\ud800"}, {"id": "b"}], "edges": [{"source": '
                    '"\\ud800", "target": "b", "capacity": 1000000}]}')
    table = pd.DataFrame({**PAIR, "nbytes": 5, "job": ["\ud800", "b"]}, dtype=object)
    for call in (lambda: netsim.Workload.from_arrays(["a", "\ud800"], ["b", "c"], 5),
                 lambda: netsim.JobSpec(0, hosts=["\ud800"], ranks=1, stages=[netsim.Stage("a")]),
                 lambda: netsim.from_networkx(graph, hosts=["b"]),
                 lambda: netsim.read_network(path, hosts=["b"]),
                 lambda: netsim.Workload.from_frame(table, start=None)):
        with pytest.raises(InputError, match="can be written as UTF-8, not"):
            call()
    with pytest.raises(InputError, match=r"^name must be a string"):
        fabric.transfer(0, 1, 5, name="\ud800")


TABLE = pd.DataFrame({"a": [1]})


@pytest.mark.parametrize("name", ["timeline", "symmetry", "progress", "check"])
def test_flags(name, job):
    def refused(value):
        with pytest.raises(InputError, match=f"^{name}.* must be true or false, not"):
            netsim.simulate(netsim.ring(4), [job], **{name: value})

    check_each(refused, [TABLE, np.array([1, 2]), pd.NA, np.ma.masked, "yes"])


@pytest.mark.parametrize("value", [True, np.True_, False, np.False_])
def test_flags_of_numpy(value, job):
    """And no progress at all."""
    net = netsim.ring(4)
    netsim.Fabric(simpy.Environment(), net, check=value)
    netsim.Stage("s", intra_server=value)
    for progress in (value, None):
        netsim.simulate(net, [job], timeline=value, progress=progress)


def test_a_run_goes_on_after_a_wrong_progress(job):
    sim = netsim.Simulation(netsim.ring(4), [job])
    with pytest.raises(InputError, match="true or false, not a DataFrame"):
        sim.run(progress=TABLE)
    assert len(sim.run().result().jobs) == 1


@pytest.mark.parametrize("record", [b"x", bytearray(b"x"), range(2)])
def test_records_that_are_no_names(record, job):
    with pytest.raises(InputError, match="record must be a list of names, but holds"):
        netsim.simulate(netsim.ring(4), [job], record=record)


def test_decimals_that_signal_and_integers_beyond_floats(tmp_path):
    for column in ("src", "nbytes", "start_s", "coflow", "job"):
        for value in (Decimal("sNaN"), 10**400):
            table = pd.DataFrame({**PAIR, "nbytes": 5, "start_s": 0.0, column: [value] * 2},
                                 dtype=object)
            with pytest.raises(InputError, match=f"{column} (of row 0 )?(must|is)"):
                netsim.Workload.from_frame(table)
        values = {"src": 0, "dst": 1, "nbytes": 5, "start_s": 0, column: 1}
        first = ",".join(map(str, values.values()))
        second = ",".join(map(str, {**values, column: "9" * 400}.values()))
        path = tmp_path / "t.csv"
        path.write_text(f"{','.join(values)}\n{first}\n{second}")
        with pytest.raises(TraceError, match=f"{column} (of row 1 )?must be"):
            netsim.read_workload(path)
    with pytest.raises(InputError, match="arrival_s must be finite"):
        netsim.JobSpec(0, Decimal("sNaN"), stages=[netsim.Stage("a")])
    for wrong in (10**400, Decimal("sNaN")):
        with pytest.raises(InputError, match="weight must be a finite number"):
            netsim.Stage("a", None, weight=wrong)
    with pytest.raises(InputError, match="intra_server must be true or false"):
        netsim.Stage("a", intra_server=pd.NA)


@pytest.mark.filterwarnings("error")
def test_masked_values_warn_of_nothing(fabric):
    for call in (lambda: fabric.transfer(0, 1, np.ma.masked),
                 lambda: fabric.transfer(np.ma.masked, 1, 5),
                 lambda: netsim.Flows(np.ma.array([0, 1], mask=[1, 0]), [1, 2], [5, 6])):
        with pytest.raises(InputError, match=r"\[0\] is masked"):
            call()


def test_two_levels_of_one_name_and_tables_for_columns():
    index = pd.MultiIndex.from_tuples([(0, 1), (1, 2)], names=["src", "src"])
    with pytest.raises(InputError, match="two levels of the index are named 'src'"):
        netsim.Workload.from_frame(pd.DataFrame({"dst": 1, "nbytes": 5}, index=index), start=None)
    with pytest.raises(InputError, match="src must be a list of names or numbers, not a DataFrame"):
        netsim.Workload.from_arrays(pd.DataFrame(PAIR), 1, 5)


def test_records_and_events_of_other_types(job):
    with pytest.raises(InputError, match="record must be a list of names, not masked"):
        netsim.Fabric(simpy.Environment(), netsim.ring(4), record=np.ma.masked)
    with pytest.raises(UnknownNameError, match="unknown kind of event"):
        netsim.Simulation(netsim.ring(4), [job]).on(pd.DataFrame({"a": [1]}), print)
    with pytest.raises(InputError, match="allocator"):
        netsim.simulate(netsim.ring(4), [job], allocator=np.array([1, 2]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("host", [1e300, -1e300, np.inf, np.nan])
def test_hosts_out_of_range_warn_of_nothing(host, fabric):
    for call in (lambda: netsim.Flows([host, 1.0], [1, 2], [5, 6]),
                 lambda: netsim.Workload.from_arrays([host, 1.0], [1, 2], 5),
                 lambda: fabric.transfer(0, host, 5)):
        with pytest.raises(InputError):
            call()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_columns_of_short_floats_are_read(kind):
    table = pd.DataFrame({**PAIR, "nbytes": [60_000, 1]}).astype(kind)
    workload = netsim.Workload.from_frame(table, start=None)
    assert workload.to_frame()["bytes"].tolist() == [60_000, 1]


@pytest.mark.parametrize("changes", [
    {"src": None}, {"src": ["src"]}, {"coflow": "dicts"}])
def test_columns_that_are_none(changes):
    table = pd.DataFrame({**PAIR, "nbytes": 5, "dicts": [{}, {}]})
    with pytest.raises(InputError, match=r"src must be the name|dicts must be numbers or texts"):
        netsim.Workload.from_frame(table, start=None, **changes)


def test_arrays_without_dimensions_and_masked_values():
    with pytest.raises(InputError, match=r"dst must be .* not array"):
        netsim.Workload.from_arrays(["a", "b"], np.array(1), 5)
    with pytest.raises(InputError, match="nbytes of row 0 is masked"):
        netsim.Workload.from_arrays([0, 1], [1, 2], np.ma.array([1, 2], mask=[1, 0]))


@pytest.mark.parametrize("column", [
    {"nbytes": [[1], [2]]}, {"nbytes": pd.to_timedelta([5, 6], unit="s")},
    {"start_s": pd.to_datetime(["2020-01-01"] * 2)}, {"coflow": [[1], [2]]}])
def test_parquet_of_other_types(column, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "t.parquet"
    pd.DataFrame({**PAIR, "nbytes": 5, **column}).to_parquet(path)
    with pytest.raises(TraceError, match=r"t.parquet: .*must be"):
        netsim.read_workload(path)
    with pytest.raises(InputError, match="src must be a string, not None"):
        netsim.read_workload(path, src=None)


NET, JOBS = netsim.big_switch(4, "8Mbps"), netsim.read_workload("parrot-fig2")


@pytest.mark.parametrize(("name", "several"), [
    ("allocator", ["sebf", "maxmin"]), ("observe_interval", ("1s", "2s")), ("seed", range(3)),
    ("placement", ["first-fit", "mapped"]), ("until", [1, 2]), ("execution", ["fabric", "flow"]),
    ("network", [NET, NET]), ("workload", ["demo", "parrot-fig2"]), ("workload", [JOBS, JOBS])])
def test_lists_where_a_sweep_takes_them(name, several):
    call = {"network": NET, "workload": JOBS, name: several}
    said = rf"^{name}: a run has one, .*; netsim\.sweep\(\.\.\., {name}=\[\.\.\.\]\) runs each$"
    with pytest.raises(InputError, match=said):
        netsim.simulate(**call)
    if name not in ("allocator", "seed"):  # a comparison has messages of its own for these
        with pytest.raises(InputError, match=said):
            netsim.compare(**call, allocators=["sebf"])
