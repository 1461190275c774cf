"""Values of types that nobody expects are refused by errors of netsim's, without warnings."""

import numpy as np
import pandas as pd
import pytest
import simpy

import netsim
from netsim.errors import InputError, TraceError, UnknownNameError

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
