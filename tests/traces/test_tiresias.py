"""The Tiresias CSV reader, and the construction of jobs (Parrot, Section 6.1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.errors import InputError, OutputError, TraceError, UnitError
from netsim.traces import (
    Construction,
    TiresiasRow,
    check_trace,
    read_tiresias,
    read_workload,
    write_tiresias,
)
from netsim.traces.tiresias import parse_tiresias
from netsim.workload import Workload

CHECKOUT = Path(__file__).parents[2]
HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
GOOD = "0,1,0,100,vgg19,200,30"


@pytest.mark.parametrize("separated", [";", "\t"])
def test_other_separators(read, separated):
    (job,) = read(*(line.replace(",", separated) for line in (HEADER, GOOD)))
    assert (job.id, job.iterations, job.name) == (0, 100, "vgg19")


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Workload]:
    """Return a reader of lines, written to a file ``t.csv``."""

    def reader(*lines: str, **options: object) -> Workload:
        path = tmp_path / "t.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return read_tiresias(path, **options)

    return reader


def test_jobs_of_the_sample(sample) -> None:
    """Seconds per iteration are 0.2, 1, 2, 0.05, 1.5, 0.65; over the largest, 2, times 1000 MB.

    Workers are twice the GPUs, servers as many: 4 ranks per GPU.
    """
    workload = read_workload(sample, seed=3)
    assert workload.name == "tiresias-sample"
    assert workload.seed == 3
    assert [job.nbytes for job in workload] == pytest.approx([1e8, 5e8, 1e9, 25e6, 75e7, 325e6])
    assert [job.ranks for job in workload] == [4, 8, 16, 4, 32, 4]
    assert [job.iterations for job in workload] == [400, 100, 50, 1000, 40, 200]
    assert [job.arrival_s for job in workload] == [0, 25, 40, 80, 100, 150]
    assert [job.name for job in workload] == ["resnet50", "vgg16", "vgg16", "alexnet",
                                              "transformer", "lstm"]
    assert workload.jobs[1].pattern == {"name": "parameter-server", "servers": 4,
                                        "sizes": "uniform"}
    assert not any(job.redraw for job in workload)


def test_the_longest_flow_is_exactly_the_length(sample) -> None:
    assert max(job.nbytes for job in read_tiresias(sample, length="250MB")) == 250e6


def test_lengths_are_of_the_traces_own_iterations(sample) -> None:
    """Other iteration counts must not change the flows: only how often they are sent."""
    fixed, own = read_tiresias(sample, iterations=10), read_tiresias(sample)
    assert {job.iterations for job in fixed} == {10}
    assert [job.nbytes for job in fixed] == [job.nbytes for job in own]


def test_other_options_of_the_construction(sample) -> None:
    jobs = read_tiresias(sample, arrival_scale=0.5, servers=3, redraw=True, ranks_per_gpu=1).jobs
    assert [job.arrival_s for job in jobs] == [0, 12.5, 20, 40, 50, 75]
    assert [job.pattern["servers"] for job in jobs] == [3] * 6
    assert [job.ranks for job in jobs] == [1 + 3, 2 + 3, 4 + 3, 1 + 3, 8 + 3, 1 + 3]
    assert all(job.redraw for job in jobs)


def test_arrivals_scaled_to_nothing_coincide(sample) -> None:
    assert {job.arrival_s for job in read_tiresias(sample, arrival_scale=0)} == {0.0}


def test_drawn_servers_cover_the_range_and_move_nothing_else() -> None:
    rows = [TiresiasRow(k, 1, 0, 1, "m", 1, 0) for k in range(200)]
    jobs = Construction(servers_max=3).workload(rows, "w", 0).jobs
    servers = [job.pattern["servers"] for job in jobs]
    assert {1, 2, 3} == set(servers)
    assert all(job.ranks == 2 + job.pattern["servers"] for job in jobs)
    fewer = Construction(servers_max=3).workload(rows[100:], "w", 0).jobs
    assert [job.pattern["servers"] for job in fewer] == servers[100:]
    other = Construction(servers_max=3).workload(rows, "w", 1).jobs
    assert [job.pattern["servers"] for job in other] != servers


def test_same_seed_same_workload(sample, facts) -> None:
    once, again = (read_tiresias(sample, servers_max=9, seed=5) for _ in range(2))
    assert facts(once) == facts(again)


def test_columns_in_any_order_extra_columns_crlf_and_bom(tmp_path: Path, read, facts) -> None:
    plain = read(HEADER, GOOD)
    path = tmp_path / "odd.csv"
    path.write_bytes(b"\xef\xbb\xbfjob_id,user, iterations,duration,num_gpu,submit_time,"
                     b"model_name,interval\r\n\r\n0,\"a,b\",100.0,200,1,0,vgg19,30\r\n")
    assert facts(read_tiresias(path)) == facts(plain)


@pytest.mark.parametrize(("line", "message"), [
    ("0,1,0,100,vgg19,abc,30", "duration must be a number from 1e-09 to 1e+18, not 'abc'"),
    ("0,1,0,100,vgg19,0,30", "duration must be a number from 1e-09 to 1e+18, not '0'"),
    ("0,1,0,100,vgg19,nan,30", "duration must be a number from 1e-09 to 1e+18, not 'nan'"),
    ("0,1,0,100,vgg19,inf,30", "duration must be a number from 1e-09 to 1e+18, not 'inf'"),
    ("0,1,-3,100,vgg19,200,30", "submit_time must be a number from 0 to 1e+18, not '-3'"),
    ("0,1,0,100,vgg19,200,-1", "interval must be a number from 0 to 1e+18, not '-1'"),
    ("0,1,0,0,vgg19,200,30", "iterations must be a whole number from 1 to 1e+15, not '0'"),
    ("0,1,0,1.5,vgg19,200,30", "iterations must be a whole number from 1 to 1e+15, not '1.5'"),
    ("0,1,0,1_0,vgg19,200,30", "iterations must be a whole number from 1 to 1e+15, not '1_0'"),
    ("0,0,0,100,vgg19,200,30", "num_gpu must be a whole number from 1 to 1e+15, not '0'"),
    ("-1,1,0,100,vgg19,200,30", "job_id must be a whole number from 0 to 1e+15, not '-1'"),
    (",1,0,100,vgg19,200,30", "job_id must be a whole number from 0 to 1e+15, not ''"),
    ("0,1,0", "3 fields, where the header has 7: '0,1,0'"),
    (GOOD + ",9", f"8 fields, where the header has 7: '{GOOD},9'"),
    ('0,1,0,100,"vgg19,200,30', "not a line of comma-separated values: unexpected end of data"),
    (GOOD, "job_id 0 was given already, on line 2"),
])
def test_a_bad_line_is_named(read, tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(HEADER, GOOD if line == GOOD else GOOD.replace("0", "7", 1), "", line)
    assert (caught.value.path, caught.value.line) == (tmp_path / "t.csv", 4)
    assert str(caught.value) == f"{tmp_path / 't.csv'}:4: {message}"


def test_a_missing_column_is_named(read, tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        read("", "job_id,num_gpu,submit_time,iterations,model_name,interval")
    assert str(caught.value) == (
        f"{tmp_path / 't.csv'}:2: missing column 'duration'; the header has: 'job_id', 'num_gpu', "
        "'submit_time', 'iterations', 'model_name', 'interval'")


def test_a_column_that_is_there_twice(read) -> None:
    with pytest.raises(TraceError, match=r"t\.csv:1: duplicate column 'duration'; "):
        read(HEADER + ",duration", GOOD + ",1")


@pytest.mark.parametrize(("data", "line", "message"), [
    (b"", 1, "the file is empty"),
    (b" \n\n", 1, "the file is empty"),
    (HEADER.encode() + b"\n", 1, "no jobs follow the header"),
    (HEADER.encode() + b"\r\n0,1,0,\xff", 2, "byte 0xff is not UTF-8"),
    (b"\xef\xbb\xbfa\n\nb\xe9c", 3, "byte 0xe9 is not UTF-8"),
])
def test_a_file_that_is_no_trace(tmp_path: Path, data: bytes, line: int, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        read_tiresias(path)
    assert (caught.value.line, caught.value.message) == (line, message)


@pytest.mark.parametrize(("options", "message"), [
    ({"iterations": 0}, "iterations must be a whole number from 1 to 1,000,000,000,000,000, not 0"),
    ({"iterations": 2.0}, "iterations must be a whole number .* not 2.0"),
    ({"iterations": True}, "iterations must be a whole number .* not True"),
    ({"servers": 0}, "servers must be a whole number .* not 0"),
    ({"servers_max": 2.5}, "servers_max must be a whole number .* not 2.5"),
    ({"servers": 1, "servers_max": 2}, "either servers or servers_max"),
    ({"ranks_per_gpu": None}, "ranks_per_gpu must be a whole number .* not None"),
    ({"arrival_scale": -1}, "arrival_scale must be a number from 0 to 1e.18, not -1"),
    ({"arrival_scale": float("nan")}, "arrival_scale must be .* not nan"),
    ({"redraw": 1}, "redraw must be true or false, not 1"),
    ({"length": 0}, "length must be greater than 0, not 0"),
    ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
])
def test_options_out_of_range(sample, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(sample, **options)


def test_a_length_without_a_known_unit(sample) -> None:
    with pytest.raises(UnitError, match="length '1 apple'"):
        read_tiresias(sample, length="1 apple")


def test_written_rows_are_read_back(tmp_path: Path) -> None:
    rows = [TiresiasRow(0, 1, 0.1, 3, 'a "model", quoted', 1 / 3, 2e-7),
            TiresiasRow(5, 8, 1e9, 1, "é", 7, 0)]
    write_tiresias(rows, tmp_path / "t.csv")
    assert parse_tiresias((tmp_path / "t.csv").read_text(encoding="utf-8")) == (rows, [])
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    row = TiresiasRow(0, 1, 0, 1, "m", 1, 0)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OutputError, match=r"folder\.csv: cannot be written"):
        write_tiresias([row], tmp_path / "folder.csv")
    with pytest.raises(OutputError, match="cannot be written"):
        write_tiresias([row], tmp_path / "none" / "t.csv")
    with pytest.raises(OutputError, match="cannot be written"):
        write_tiresias([row._replace(model_name="\ud800")], tmp_path / "t.csv")
    for name in ("a\nb", "\0"):
        with pytest.raises(InputError, match="job 0: model_name must be one line without NUL, not"):
            write_tiresias([row._replace(model_name=name)], tmp_path / "t.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


ROWS = st.lists(
    st.builds(
        TiresiasRow,
        job_id=st.integers(0, 10**15),
        num_gpu=st.integers(1, 10**15),
        submit_time=st.floats(0, 1e18),
        iterations=st.integers(1, 10**15),
        model_name=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")),
        duration=st.floats(1e-9, 1e18),
        interval=st.floats(0, 1e18),
    ),
    min_size=1, max_size=8, unique_by=lambda row: row.job_id)


@given(rows=ROWS)
def test_any_rows_survive_a_file(rows: list[TiresiasRow], tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("rows") / "t.csv"
    write_tiresias(rows, path)
    assert parse_tiresias(path.read_bytes().decode()) == (rows, [])
    nbytes = [job.nbytes for job in read_tiresias(path)]
    assert max(nbytes) == 1e9
    assert min(nbytes) >= 0


CELL = st.sampled_from(["0", "1", "2", "-1", "1e9", "nan", "inf", "1e999", "x", '"', "", " 3 ",
                        "1_0", "\x00", "2.5", "9" * 30]) | st.text(max_size=4)
LINES = st.lists(st.lists(CELL, min_size=6, max_size=8).map(",".join), max_size=4)
TEXTS = st.text() | LINES.map(lambda lines: "\n".join([HEADER, *lines]))


@given(data=st.binary() | TEXTS.map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_give_a_workload_or_a_netsim_error(
    data: bytes, tmp_path_factory, outcome
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_bytes(data)
    report = check_trace(path)
    assert bool(report.problems) != bool(report.facts)
    found = outcome(path)
    if isinstance(found, Workload):
        assert dict(report.facts)["jobs"] == len(found)
    else:
        assert found.problems == report.problems


def test_the_papers_trace() -> None:
    """60 jobs, 43,825 iterations of a push and a pull: 87,650 coflows."""
    folder = Path(os.environ.get("NETSIM_TRACES", CHECKOUT.parent / "shared" / "data"))
    path = folder / "tiresias" / "60_job.csv"
    if not path.is_file():
        pytest.skip(f"no {path}")
    found = dict(check_trace(path).facts)
    assert (found["jobs"], found["coflows"]) == (60, 87_650)
    assert [found[f"workers per job, {which}"] for which in ("least", "median", "most")] == [
        2, 3, 16]
    assert [found[f"iterations per job, {which}"] for which in ("least", "median", "most")] == [
        109, 442.5, 4861]
    assert (found["first arrival (s)"], found["last arrival (s)"]) == (0, 1779)
    # vgg19 on 8 GPUs takes the longest per iteration: 121 s for 109.
    longest = max(read_workload(path), key=lambda job: job.nbytes)
    assert (longest.name, longest.ranks, longest.nbytes) == ("vgg19", 32, 1e9)
