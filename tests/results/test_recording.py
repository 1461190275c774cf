"""Recording: what is kept, on disk where it is much, and that it changes nothing."""

from __future__ import annotations

import copy
import errno
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage
from netsim.base.tables import write_csv
from netsim.errors import OutputError
from netsim.results import lazy_table as recorded
from netsim.results import lazy_table as rows
from netsim.results import link_recorder, recorder
from netsim.results.lazy_table import LazyTable, SpilledNotes, SpillingTable, chunks_of
from netsim.results.result import Result, table_of

TABLES = ("coflows", "flows", "links", "decisions")
NET = netsim.big_switch(16, "1Gbps")
EVENTS = [{"at": "100ms", "link": "egress-3", "capacity": "100Mbps"},
          {"at": "300ms", "link": "egress-3", "capacity": "1Gbps"}]


def jobs() -> list[JobSpec]:
    """Return jobs of one coflow, and of some in turn that are named otherwise."""
    rng = np.random.default_rng(3)

    def stage(name: str, **options: Any) -> Stage:
        flows = [(int(rng.integers(8)), int(rng.integers(8, 16)), float(rng.integers(1e5, 1e7)))
                 for _ in range(rng.integers(1, 6))]
        return Stage(name, flows, **options)

    def job(k: int) -> JobSpec:
        name = f"s{rng.integers(5)}"
        stages = [stage(name)] if k % 2 else [stage(name), stage("b", after=[name])]
        return JobSpec(k, 0.02 * k, hosts=range(16), stages=stages, iterations=1 + (k % 2 == 0))
    return [job(k) for k in range(20)]


def run(allocator: str = "parrot", record: tuple[str, ...] = TABLES) -> Result:
    return netsim.simulate(NET, jobs(), allocator=allocator, record=record, events=EVENTS)


def csvs(result: Result, folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in result.save(folder).glob("*.csv")}


@pytest.fixture
def small(monkeypatch) -> None:
    """Pack and write whatever can be, and read three rows at a time."""
    monkeypatch.setattr(recorder, "MOST_NOTED", 1)
    monkeypatch.setattr(link_recorder, "MOST_NOTED", 1)
    monkeypatch.setattr(link_recorder, "_MOST_DECISIONS", 2)
    monkeypatch.setattr(rows, "MOST_BYTES", 1000)
    monkeypatch.setattr(recorded, "_CHUNK", 3)


@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "sebf"])
def test_what_is_kept_on_disk_is_the_same(allocator, tmp_path, request) -> None:
    """The files' bytes, of a run and of its data frames; and the data frames."""
    plain = run(allocator)
    wanted = csvs(plain, tmp_path / "plain")
    assert len(wanted) == 5
    request.getfixturevalue("small")
    spilled = run(allocator)
    assert all(isinstance(table_of(spilled, name), LazyTable) for name in TABLES)
    assert csvs(spilled, tmp_path / "spilled") == wanted
    assert all(isinstance(table_of(spilled, name), LazyTable) for name in TABLES)
    assert spilled.summary() | {"wall_s": 0} == plain.summary() | {"wall_s": 0}
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(spilled, name), getattr(plain, name),
                                      check_exact=True)
    assert csvs(spilled, tmp_path / "frames") == wanted


@pytest.mark.usefixtures("small")
def test_copies_have_data_frames(tmp_path) -> None:
    """In this process and in others; with another spec or table, nothing else changes."""
    result = run()
    wanted = csvs(result, tmp_path / "r")
    for other in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result),
                  result.replace(spec={"name": "x"})):
        assert csvs(other, tmp_path / "r") == wanted
    assert "links" not in result.replace(links=None).recorded


def test_a_changed_data_frame_is_what_is_saved(tmp_path) -> None:
    result = run()
    assert result.coflows is not None
    assert result.coflows is result.coflows
    result.coflows["cct_s"] = 1.0
    assert netsim.load_result(result.save(tmp_path / "r")).summary()["cct_mean_s"] == 1


@pytest.mark.parametrize("record", [("flows",), ("coflows", "flows")])
@pytest.mark.parametrize("allocator", ["parrot", "maxmin", "sebf"])
def test_recording_flows_changes_nothing(allocator, record) -> None:
    """No decision, no time; and flows end with their coflows."""
    plain, result = run(allocator, ("coflows",)), run(allocator, record)
    pd.testing.assert_frame_equal(plain.jobs, result.jobs, check_exact=True)
    assert plain.run["decisions"] == result.run["decisions"]
    assert plain.run["simpy_events"] == result.run["simpy_events"]
    assert plain.coflows is not None
    assert result.flows is not None
    ends = result.flows.groupby("coflow")["finish_s"].max()
    assert (ends == plain.coflows.set_index("coflow")["finish_s"]).all()


def test_stages_are_numbered_as_they_become_known() -> None:
    """Of jobs of one coflow beforehand, of others when they arrive, whatever is packed first."""
    def job(k: int, *names: str) -> JobSpec:
        return JobSpec(k, float(k), hosts=range(2), stages=[
            Stage(name, [(0, 1, 1e6)], after=names[:place][-1:])
            for place, name in enumerate(names)])

    table = netsim.simulate(NET, [job(0, "z"), job(1, "y", "x"), job(2, "a"),
                                  job(3, "z", "b")]).coflows
    assert list(table["stage"].cat.categories) == ["z", "a", "y", "x", "b"]


@pytest.mark.usefixtures("small")
def test_a_full_disk_ends_the_run(monkeypatch) -> None:
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rows.tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(OutputError, match=r"cannot be kept there: No space left .* set TMPDIR"):
        run()


@pytest.mark.parametrize("most", [0, 10**9])
def test_rows_are_taken_by_place(most, monkeypatch) -> None:
    monkeypatch.setattr(rows, "MOST_BYTES", most)
    table = SpillingTable(np.dtype([("a", "i8"), ("b", "f8")]))
    assert len(table.take(slice(0, 5))) == len(table) == 0
    for k in range(5):
        table.extend(np.array([(k, -k), (10 * k, 0.5)], table.dtype))
    assert len(table) == 10
    assert table.take(slice(2, 4))["a"].tolist() == [1, 10]
    assert table.take(np.array([9, 0, 8]))["a"].tolist() == [40, 0, 4]


def test_notes_have_a_column_per_key() -> None:
    notes = SpilledNotes()
    notes.extend([{}, {}])
    notes.extend([{"b": 1.0}, {"a": 2}])
    notes.extend([{"a": 3}])
    columns = notes.columns()
    assert list(columns) == ["b", "a"]
    np.testing.assert_array_equal(columns["b"], [np.nan, np.nan, 1, np.nan, np.nan])
    np.testing.assert_array_equal(columns["a"], [np.nan, np.nan, np.nan, 2, 3])


ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e16, 1e15, 1e-4, 1e-5, 0.1 + 0.2, 5e-324,
       1.7976931348623157e308, 1e22, 2 / 3]
NAMES = ["a", "b,c", 'q"q', "two\nlines", "", "r\rx", "é"]


@pytest.mark.parametrize("chosen", [
    ["many", "few", "int"], ["few", "kind"], ["few", "numbered"], ["few"], ["kind"],
    ["few", "text"], ["int", "flag", "many"], ["few", "a \"b\",c"]])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_the_bytes_are_those_of_pandas(chosen, count, tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({
        "many": rng.integers(-2**63, 2**63 - 1, count).view(np.float64),
        "few": rng.choice(ODD, count), "int": rng.integers(-2**63, 2**63 - 1, count),
        "kind": pd.Categorical.from_codes(rng.integers(-1, len(NAMES), count), pd.Index(NAMES)),
        "numbered": pd.Categorical.from_codes(rng.integers(0, 2, count), pd.Index([7, 8])),
        "text": rng.choice(NAMES, count), "flag": rng.random(count) < 0.5,
        'a "b",c': rng.random(count)})[chosen]
    monkeypatch.setattr(recorded, "_CHUNK", 300)
    write_csv(chunks_of(frame), tmp_path / "ours.csv")
    frame.to_csv(tmp_path / "pandas.csv", index=False, lineterminator="\n", encoding="utf-8")
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "pandas.csv").read_bytes()
