"""Results on disk: exact, whole or not at all, and never over something else."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim.errors import InputError, MissingExtraError, OutputError, UnknownNameError
from netsim.results import store
from netsim.results.result import Result, load_result
from netsim.results.store import check_writable

TABLES = ("jobs", "coflows", "flows", "links", "decisions")


def same(one: Result, other: Result) -> bool:
    """Compare two results, to the bit."""
    assert one.recorded == other.recorded
    for name in one.recorded:
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), check_exact=True)
    assert one.run == other.run
    assert one.spec == other.spec
    return True


def tree(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, hidden ones too, and what is in them."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
            for path in sorted(folder.rglob("*"))}


@pytest.fixture
def fails(monkeypatch) -> None:
    """Make the second table that is written fail, with a full disk."""
    write, written = store._write_table, []

    def full(table: pd.DataFrame, path: Path) -> None:
        written.append(path)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(table, path)

    monkeypatch.setattr(store, "_write_table", full)


def test_a_result_with_everything_reads_back_exactly(everything, tmp_path) -> None:
    assert everything.recorded == TABLES
    assert same(load_result(everything.save(tmp_path / "r")), everything)
    assert netsim.load_result(tmp_path / "r").summary() == everything.summary()


def test_a_result_with_little_reads_back_exactly(tmp_path) -> None:
    """No spec, only jobs, none of which has finished; then coflows, of which there are none."""
    for record in (["jobs"], ["jobs", "coflows", "flows", "links", "decisions"]):
        result = netsim.simulate("parrot-fig2", "parrot-fig2", record=record, until=1e-3)
        assert result.jobs["finish_s"].isna().all()
        assert same(load_result(result.save(tmp_path / "r")), result)


def test_odd_names_and_numbers_read_back_exactly(everything, tmp_path) -> None:
    names = ["", "NA", 'a "b", c', "two\nlines", "é 模型", "1.0"]
    odd = np.array([math.nan, math.inf, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0])
    jobs = everything.jobs.assign(name=pd.Series(names, dtype=everything.jobs["name"].dtype),
                                  lower_bound_s=odd)
    result = everything.replace(jobs=jobs)
    assert same(load_result(result.save(tmp_path / "r")), result)
    again = load_result(tmp_path / "r").jobs["lower_bound_s"].to_numpy()
    assert np.array_equal(again.view("i8")[1:], odd.view("i8")[1:])


def test_the_summary_is_json_and_says_what_ran(everything, tmp_path) -> None:
    stopped = netsim.simulate("parrot-fig2", "parrot-fig2", until=1e-3)
    text = (stopped.save(tmp_path / "r") / "summary.json").read_text()
    summary = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert summary["jct_mean_s"] is None
    assert (summary["jct_total_s"], summary["version"]) == (0.0, netsim.__version__)
    assert {"seed", "platform", "wall_s", "decisions", "allocator"} <= set(summary)


def test_the_same_experiment_gives_the_same_bytes(everything, tmp_path) -> None:
    """As does the spec.toml of its results, run again."""
    first = everything.save(tmp_path / "first")
    again = netsim.run(netsim.load_experiment(first / "spec.toml")).save(tmp_path / "again")
    one, two = tree(first), tree(again)
    summaries = [json.loads(files.pop("summary.json")) for files in (one, two)]
    assert one == two
    assert set(one) == {f"{name}.csv" for name in TABLES} | {"spec.toml"}
    for summary in summaries:
        del summary["wall_s"]
    assert summaries[0] == summaries[1]


def test_an_earlier_result_is_replaced_whole(everything, tmp_path) -> None:
    small = netsim.simulate("parrot-fig2", "parrot-fig2")
    everything.save(tmp_path / "r")
    small.save(tmp_path / "r")
    assert set(tree(tmp_path / "r")) == {"summary.json", "jobs.csv", "coflows.csv"}
    assert os.listdir(tmp_path) == ["r"]


def test_a_result_with_a_report_and_a_picture_is_replaced(everything, tmp_path) -> None:
    """`netsim report` and `netsim plot` write into the folder by default."""
    everything.save(tmp_path / "r")
    for name in ("report.html", "gantt.png"):
        (tmp_path / "r" / name).write_text("x")
    everything.save(tmp_path / "r")
    assert not {"report.html", "gantt.png"} & set(tree(tmp_path / "r"))


def test_an_empty_folder_is_taken_and_missing_ones_are_made(everything, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    everything.save(tmp_path / "empty")
    everything.save(tmp_path / "a" / "b" / "c")
    assert tree(tmp_path / "empty") == tree(tmp_path / "a" / "b" / "c")


def test_a_link_to_an_earlier_result_stays_one(everything, tmp_path) -> None:
    everything.save(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    netsim.simulate("parrot-fig2", "parrot-fig2").save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "real" / "spec.toml").exists()


# --- what must not happen -------------------------------------------------------------------


def _full_folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("x")


def _with_notes(path: Path) -> None:
    """Write a result, or a comparison around it, and something in it that is not."""
    path.mkdir(parents=True)
    for name in ("summary.json", "notes.md"):
        (path / name).write_text("{}")
    if path.name != "r":
        (path.parent / "comparison.csv").write_text("label\n")


@pytest.mark.parametrize(("make", "message"), [
    (_full_folder, "holds a file that is not a result of netsim"),
    (lambda path: path.write_text("x"), "is a file, not a folder"),
    (_with_notes, "holds a file that is not a result of netsim, 'notes.md'"),
    (lambda path: _with_notes(path / "parrot"), "holds a file that is not .* 'parrot'"),
])
def test_something_else_is_left_alone(everything, tmp_path, make, message) -> None:
    make(tmp_path / "r")
    before = tree(tmp_path)
    for attempt in (check_writable, everything.save):
        with pytest.raises(OutputError, match=message):
            attempt(tmp_path / "r")
    assert tree(tmp_path) == before


def test_the_current_folder_is_left_alone(everything, tmp_path, monkeypatch) -> None:
    inside = everything.save(tmp_path / "r") / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    with pytest.raises(OutputError, match="holds the current folder"):
        check_writable("..")


@pytest.mark.parametrize("below", ["file", "file/deep"])
def test_a_folder_that_cannot_be_made(everything, tmp_path, below) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (check_writable, everything.save):
        with pytest.raises(OutputError, match=f"{below}/r: cannot be written: Not a directory"):
            attempt(tmp_path / below / "r")
    assert tree(tmp_path) == {"file": b"x"}


def test_a_folder_without_permission(everything, tmp_path, monkeypatch) -> None:
    """Simulated: whoever runs the tests may have all permissions."""
    def denied(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store.tempfile, "mkdtemp", denied)
    with pytest.raises(OutputError, match="r: cannot be written: Permission denied"):
        everything.save(tmp_path / "r")
    assert tree(tmp_path) == {}


def test_checking_leaves_nothing(tmp_path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert tree(tmp_path) == {}


@pytest.mark.usefixtures("fails")
def test_a_full_disk_leaves_nothing(everything, tmp_path) -> None:
    with pytest.raises(OutputError, match="a/r: cannot be written: No space left on device"):
        everything.save(tmp_path / "a" / "r")
    assert tree(tmp_path) == {}


def test_a_full_disk_leaves_the_earlier_result(everything, tmp_path, request) -> None:
    everything.save(tmp_path / "r")
    before = tree(tmp_path)
    request.getfixturevalue("fails")
    with pytest.raises(OutputError):
        everything.save(tmp_path / "r")
    assert tree(tmp_path) == before


def test_a_name_that_no_file_can_hold(everything, tmp_path) -> None:
    names = np.full(len(everything.jobs), "\ud800", object)
    result = everything.replace(jobs=everything.jobs.assign(name=pd.Series(names, dtype=object)))
    with pytest.raises(OutputError, match="r: cannot be written: 'utf-8' codec can't encode"):
        result.save(tmp_path / "r")
    assert tree(tmp_path) == {}


def test_an_interruption_leaves_nothing(everything, tmp_path, monkeypatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        everything.save(tmp_path / "r")
    assert tree(tmp_path) == {}


def test_where_the_last_step_fails_the_earlier_result_is_put_back(everything, tmp_path,
                                                                  monkeypatch) -> None:
    everything.save(tmp_path / "r")
    before = tree(tmp_path)
    rename = Path.rename

    def fails_for_new(self: Path, target: Path) -> Path:
        if self.suffix == ".new":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_for_new)
    with pytest.raises(OutputError, match="r: cannot be written: Input/output error"):
        everything.save(tmp_path / "r")
    assert tree(tmp_path) == before


# --- reading --------------------------------------------------------------------------------


def test_folders_that_are_no_results(everything, tmp_path) -> None:
    with pytest.raises(InputError, match=r"not a result: it has no summary\.json"):
        load_result(tmp_path)
    folder = everything.save(tmp_path / "r")
    (folder / "flows.csv").unlink()
    with pytest.raises(InputError, match=r"not a result: it has no flows\.csv"):
        load_result(folder)


# --- Parquet --------------------------------------------------------------------------------


def test_parquet_reads_back_as_csv_does(everything, tmp_path) -> None:
    """All types of columns: categories, flags, whole numbers, odd floats and texts."""
    pytest.importorskip("pyarrow")
    names = ["", "NA", 'a "b", c', "two\nlines", "é 模型", "1.0"]
    odd = np.array([math.nan, math.inf, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0])
    jobs = everything.jobs.assign(name=pd.Series(names, dtype=everything.jobs["name"].dtype),
                                  lower_bound_s=odd, late=odd > 1,
                                  why=pd.Series(["x"] * 6, dtype=object))
    result = everything.replace(jobs=jobs)
    folder = result.save(tmp_path / "p", format="parquet")
    assert set(tree(folder)) == {f"{name}.parquet" for name in TABLES} | {"spec.toml",
                                                                          "summary.json"}
    assert same(load_result(folder), load_result(result.save(tmp_path / "c")))
    assert load_result(folder, tables=["links"]).recorded == ("jobs", "coflows", "links")
    again = load_result(folder).jobs["lower_bound_s"].to_numpy()
    assert np.array_equal(again.view("i8")[1:], odd.view("i8")[1:])


def test_parquet_is_for_others_too(everything, tmp_path) -> None:
    """What is missing is null, and a long table, written in parts, is one."""
    parquet = pytest.importorskip("pyarrow.parquet")
    links = pd.concat([everything.links] * 1000, ignore_index=True)
    assert len(links) > 2**15
    stopped = netsim.simulate("parrot-fig2", "parrot-fig2", until=1e-3).replace(links=links)
    folder = stopped.save(tmp_path / "r", format="parquet")
    assert parquet.read_table(folder / "jobs.parquet")["finish_s"].null_count == 2
    assert load_result(folder).links.equals(links)


def test_tables_of_arrow_share_their_numbers(everything) -> None:
    """The same values as of the data frames; what is missing is null."""
    pytest.importorskip("pyarrow")
    tables = everything.to_arrow()
    assert tuple(tables) == everything.recorded
    for name, table in tables.items():
        frame = getattr(everything, name)
        assert table.column_names == list(frame)
        pd.testing.assert_frame_equal(table.to_pandas(), frame, check_exact=True)
        for column in frame.select_dtypes(["int64", "float64"]):
            (part,) = table[column].chunks
            assert part.buffers()[1].address == frame[column].to_numpy().ctypes.data
    stopped = netsim.simulate("parrot-fig2", "parrot-fig2", until=1e-3).to_arrow()
    assert stopped["jobs"]["finish_s"].null_count == 2
    assert "flows" not in stopped


def test_tables_of_arrow_without_rows() -> None:
    """No coflow has ended: its texts are texts all the same."""
    pytest.importorskip("pyarrow")
    tables = netsim.simulate("parrot-fig2", "parrot-fig2", record=TABLES, until=1e-3).to_arrow()
    assert tables["coflows"].num_rows == 0
    assert "null" not in map(str, tables["coflows"].schema.types)


def test_tables_of_arrow_need_an_extra(everything, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[parquet\]'"):
        everything.to_arrow()


def test_parquet_without_rows(tmp_path) -> None:
    """No coflow has ended: its texts are texts all the same."""
    parquet = pytest.importorskip("pyarrow.parquet")
    result = netsim.simulate("parrot-fig2", "parrot-fig2", record=TABLES, until=1e-3)
    folder = result.save(tmp_path / "r", format="parquet")
    assert same(load_result(folder), result)
    schema = parquet.read_schema(folder / "coflows.parquet")
    assert not any(str(kind) == "null" for kind in schema.types)


def test_parquet_takes_the_place_of_csv(everything, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    everything.save(tmp_path / "r")
    everything.save(tmp_path / "r", format="parquet")
    assert not list((tmp_path / "r").glob("*.csv"))
    everything.save(tmp_path / "r")
    assert not list((tmp_path / "r").glob("*.parquet"))


def test_a_comparison_in_parquet(tmp_path) -> None:
    pytest.importorskip("pyarrow")
    found = netsim.compare("parrot-fig2", "parrot-fig2", allocators=["parrot", "lccf"])
    found.save(tmp_path / "c", format="parquet")
    assert (tmp_path / "c" / "lccf" / "jobs.parquet").is_file()
    again = netsim.load_comparison(tmp_path / "c")
    assert all(same(again.results[label], found.results[label]) for label in found.results)


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"job\n1\n"])
def test_damaged_parquet(everything, tmp_path, damage) -> None:
    pytest.importorskip("pyarrow")
    folder = everything.save(tmp_path / "r", format="parquet")
    (folder / "links.parquet").write_bytes(damage)
    with pytest.raises(InputError, match="r: not a readable result: is not read as Parquet"):
        load_result(folder)
    (folder / "jobs.parquet").write_bytes((folder / "coflows.parquet").read_bytes())
    with pytest.raises(InputError, match=r"jobs.parquet has the columns \['coflow'"):
        load_result(folder)


def test_parquet_without_pyarrow(everything, tmp_path, monkeypatch) -> None:
    """It is refused before the run, and leaves what is there."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'coflow-netsim\[parquet\]'"):
        everything.save(tmp_path / "r", format="parquet")
    with pytest.raises(UnknownNameError, match="unknown format of tables 'feather'; choose from"):
        everything.save(tmp_path / "r", format="feather")
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("file", "text"), [
    ("summary.json", "{"), ("summary.json", "{}"), ("summary.json", "[]"),
    ("summary.json", '"tables"'), ("summary.json", '{"tables": []}'),
    ("jobs.csv", ""), ("jobs.csv", "job\nx\n"), ("coflows.csv", "coflow,stage\n1,2\n"),
    ("summary.json", "[" * 100_000), ("links.csv", "start_s,end_s,link,capacity,bytes\n"),
    ("links.csv", "start_s,end_s,link,bytes,capacity\n0,1,nowhere,1,1\n"),
    ("spec.toml", "= 3"),
])
def test_damaged_results(everything, tmp_path, file, text) -> None:
    folder = everything.save(tmp_path / "r")
    (folder / file).write_text(text)
    with pytest.raises(InputError, match="r: not a readable result: "):
        load_result(folder)


def test_a_result_without_gpus_is_damaged(tmp_path) -> None:
    jobs = [netsim.JobSpec(0, pattern="ring-all-reduce", ranks=1, compute_s=1)]
    folder = netsim.simulate(netsim.Cluster(gpus=[2]), jobs).save(tmp_path / "r")
    path = folder / "summary.json"
    path.write_text(path.read_text().replace('"gpus": 2', '"gpus": 0', 1))
    with pytest.raises(InputError, match=r"r: not a readable result: summary.json has 0 GPUs"):
        load_result(folder)


def test_a_number_that_is_too_large(everything, tmp_path) -> None:
    path = everything.save(tmp_path / "r") / "jobs.csv"
    head, first, *others = path.read_text().splitlines()
    path.write_text("\n".join([head, f"{2**63},{first.partition(',')[2]}", *others]))
    with pytest.raises(InputError, match="r: not a readable result: "):
        load_result(path.parent)
