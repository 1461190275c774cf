"""Whatever is wrong in a file is said with its place, and nothing else is ever raised."""

from __future__ import annotations

import gzip
import shutil
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netsim.errors import NetsimError, TraceError
from netsim.traces import check_trace, read_workload
from netsim.traces.cluster import gpu_v2023_nodes, helios_jobs, philly_jobs
from netsim.traces.cluster.philly import read_entries
from netsim.traces.cluster.readers import GPU_TRACES
from netsim.traces.cluster.tables import read_table
from tests.examples import examples
from tests.pairs import exhaustive

HELIOS = ("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
          "duration,queue")
GOOD = ("1,u,v,1,4,1,COMPLETED,2020-04-01 08:00:00,2020-04-01 08:00:10,2020-04-01 08:10:10,"
        "600,10")
TABLES = [name for name, trace in GPU_TRACES.items() if trace.table is not None]


@pytest.mark.parametrize(("old", "new", "message"), [
    (",1,4,1,", ",one,4,1,", "gpu_num must be a whole number from 0 to 1e+06, not 'one'"),
    (",1,4,1,", ",1.5,4,1,", "gpu_num must be a whole number from 0 to 1e+06, not '1.5'"),
    (",1,4,1,", ",1_0,4,1,", "gpu_num must be a whole number from 0 to 1e+06, not '1_0'"),
    (",1,4,1,", ",,4,1,", "gpu_num must be a whole number from 0 to 1e+06, not ''"),
    (",600,", ",-600,", "duration must be a number from 0 to 1e+12, not '-600'"),
    (",600,", ",inf,", "duration must be a number from 0 to 1e+12, not 'inf'"),
    ("2020-04-01 08:00:00", "now",
     "submit_time must be a time such as '2020-06-09 18:41:01', not 'now'"),
    ("2020-04-01 08:00:00", "2020-13-01 08:00:00",
     "submit_time must be a time such as '2020-06-09 18:41:01', not '2020-13-01 08:00:00'"),
    ("2020-04-01 08:00:00", "2020-04-01 08:00:00+8",
     "submit_time must be a time such as '2020-06-09 18:41:01', not '2020-04-01 08:00:00+8'"),
    ("2020-04-01 08:00:00", "2020-04-01 10000:21",
     "submit_time must be a time such as '2020-06-09 18:41:01', not '2020-04-01 10000:21'"),
    (",10", "", "11 fields, where the header has 12"),
    ("1,u,", '1,"u,', "not a line of comma-separated values: unexpected end of data"),
])
def test_a_broken_row_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "h.csv"
    path.write_text("\n".join((HELIOS, GOOD, "", GOOD.replace(old, new, 1))))
    with pytest.raises(TraceError) as caught:
        helios_jobs(path)
    assert (caught.value.path, caught.value.line) == (path, 4)
    assert message in str(caught.value)


def test_all_broken_rows_nearby_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_text("\n".join((HELIOS, GOOD.replace(",1,", ",x,"), GOOD, GOOD.replace(",1,", ",y,")
                               )))
    report = check_trace(path, "helios")
    assert [problem.line for problem in report.problems] == [2, 4]


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_column_is_named_with_what_was_found(trace, tmp_path: Path, name: str) -> None:
    text = trace(name).read_text()
    column = {"gpu-v2023": "num_gpu", "acme": "end_time"}.get(name, "duration")
    path = tmp_path / "t.csv"
    path.write_text(text.replace(column, "renamed", 1))
    with pytest.raises(TraceError, match=f"missing column '{column}'; the header has: .*'renamed'"
                       ) as caught:
        read_workload(path, format=name)
    assert caught.value.line == 1
    path.write_text(text.replace("\n", f",{column}\n", 1))
    with pytest.raises(TraceError, match=f"duplicate column '{column}'"):
        read_workload(path, format=name)


@pytest.mark.parametrize("name", [*TABLES, "philly"])
@pytest.mark.parametrize(("data", "line", "message"), [
    (b"", 1, "the file is empty"),
    (b" \n \n", 1, "empty|the file is blank"),
    (b"\xef\xbb\xbf\n\nb\xe9c,d\n", 3, "byte 0xe9 is not UTF-8"),
])
def test_a_file_that_is_no_trace(tmp_path: Path, name: str, data: bytes, line: int, message: str
                                 ) -> None:
    path = tmp_path / "t"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=message) as caught:
        read_workload(path, format=name)
    assert caught.value.line in (line, 3 if data.isspace() else line)


@pytest.mark.parametrize("name", [*TABLES, "philly", "pai"])
def test_a_file_without_jobs(trace, tmp_path: Path, name: str) -> None:
    path = tmp_path / "pai_job_table.csv"
    path.write_text("[]" if name == "philly" else trace(name).read_text().split("\n")[0] + "\n")
    if name == "pai":
        path.write_text("job_name,inst_id,user,status,start_time,end_time\n")
    with pytest.raises(TraceError, match="holds no jobs"):
        read_workload(path, format=name)
    with pytest.raises(TraceError, match="no such file"):
        read_workload(tmp_path / "none.csv", format=name)


def test_a_file_of_which_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "h.csv"
    path.write_text("\n".join((HELIOS, GOOD.replace("COMPLETED", "FAILED"),
                               GOOD.replace(",1,4,", ",0,4,"))))
    with pytest.raises(TraceError, match=r"h\.csv: no jobs remain of 2: 1 failed or was "
                       r"cancelled, 1 requested no GPU"):
        helios_jobs(path)


def test_nodes_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("sn,gpu,model\n")
    with pytest.raises(TraceError, match="holds no servers"):
        gpu_v2023_nodes(path)
    path.write_text("sn,gpu,model\na,-1,\n")
    with pytest.raises(TraceError, match=r"n\.csv:2: gpu must be a whole number .* not '-1'"):
        gpu_v2023_nodes(path)


def test_a_column_that_is_missing_in_a_header_beside_a_table(trace, tmp_path: Path) -> None:
    shutil.copytree(trace("pai").parent, tmp_path / "pai")
    header = tmp_path / "pai" / "pai_task_table.header"
    header.write_text("job_name,task_name,inst_num,status,start_time,end_time,a,b,c,d\n")
    with pytest.raises(TraceError, match=r"pai_task_table\.header:1: missing column 'plan_gpu'; "
                       "the header has: 'job_name', 'task_name'"):
        read_workload(tmp_path / "pai" / "pai_job_table.csv", format="pai")


@pytest.mark.parametrize(("table", "message"), [
    ("pai_task_table", "plan_gpu must be a number from 0 to 1e.08, not 'half'"),
    ("pai_group_tag_table", "4 fields, where the header has 5"),
    ("pai_instance_table", "start_time must be a number from 0 to 1e.12, not '-1'"),
])
def test_a_broken_table_beside_the_jobs(trace, tmp_path: Path, table: str, message: str) -> None:
    shutil.copytree(trace("pai").parent, tmp_path / "pai")
    file = tmp_path / "pai" / f"{table}.csv"
    lines = file.read_text().splitlines()
    lines[1] = {"pai_task_table": lines[1].replace(",,", ",half,"),
                "pai_group_tag_table": lines[1].replace(",V100", ""),
                "pai_instance_table": lines[1].replace("970.0", "-1")}[table]
    file.write_text("\n".join(lines))
    path = tmp_path / "pai" / "pai_job_table.csv"
    with pytest.raises(TraceError, match=message) as caught:
        read_workload(path, format="pai", instances=True)
    assert (caught.value.path, caught.value.line) == (file, 2)
    file.unlink()
    with pytest.raises(TraceError, match=f"{table}.csv: no such file"):
        read_workload(path, format="pai", instances=True)


@pytest.mark.parametrize(("text", "line", "message"), [
    ("{}", 1, r"must hold a JSON array, which begins with '\[', not with '{'"),
    ("\n[\n{\n'a'}]", 4, "not JSON: Expecting property name"),
    ('[\n{"a": 1}\n{"a": 1}]', 3, "',' or ']' must follow an entry, not '{"),
    ('[{"a": 1},\n', 2, "not JSON: Expecting value"),
    ('[\n{"a": \n"b', 3, "not JSON: Unterminated string"),
    ("[1]\n2", 2, "'2' follows the end of the array"),
    ('[{"a": 1}', 1, "must follow an entry, not the end of the file"),
    ("[" * 200_000, 1, "not read as JSON: "),
    ('[{"a": ' + "1" * 5000 + "}]", 1, "not read as JSON: "),
])
@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_broken_json_is_named(tmp_path: Path, block: int, text: str, line: int, message: str
                              ) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(text)
    with pytest.raises(TraceError, match=message) as caught:
        list(read_entries(path, block))
    assert (caught.value.path, caught.value.line) == (path, line)


@pytest.mark.parametrize(("entry", "message"), [
    ("3", "an entry must be an object with status, .*, not 3"),
    ('{"status": "Pass", "vc": "", "user": "", "attempts": []}',
     "the key 'submitted_time' is missing; the entry has: 'status', 'vc', 'user', 'attempts'"),
    ("{}", "the key 'status' is missing; the entry has: nothing"),
])
def test_an_entry_of_another_kind_is_named(tmp_path: Path, entry: str, message: str) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(f"[\n{entry}]")
    with pytest.raises(TraceError, match=message) as caught:
        philly_jobs(path)
    assert caught.value.line == 2


@pytest.mark.parametrize(("key", "value", "message"), [
    ("status", 1, "status must be a string, not 1"),
    ("submitted_time", 1, "submitted_time must be a string, not 1"),
    ("submitted_time", '"noon"', "the submit must be a time such as .*, not 'noon'"),
    ("attempts", "null", "attempts must be a list, not None"),
    ("attempts", "[3]", r"attempts\[0\] must be an object with start_time, end_time, detail"),
    ("attempts", '[{"start_time": 5, "end_time": null, "detail": []}]',
     r"attempts\[0\]\.start_time must be a string, not 5"),
    ("attempts", '[{"start_time": null, "end_time": null, "detail": [{"ip": "m"}]}]',
     r"attempts\[0\]\.detail must be a list of objects with a list of gpus"),
])
def test_a_broken_entry_is_named(tmp_path: Path, key: str, value: Any, message: str) -> None:
    entry = {"status": '"Pass"', "vc": '"v"', "user": '"u"', "attempts": "[]",
             "submitted_time": "null", key: value}
    path = tmp_path / "cluster_job_log"
    path.write_text("[\n\n{" + ", ".join(f'"{k}": {v}' for k, v in entry.items()) + "}]")
    with pytest.raises(TraceError, match=message) as caught:
        philly_jobs(path)
    assert caught.value.line == 3


@pytest.mark.parametrize("block", [1, 2, 3, 64])
def test_entries_do_not_depend_on_how_they_are_read(trace, block: int) -> None:
    assert list(read_entries(trace("philly"), block)) == list(read_entries(trace("philly")))
    assert [line for line, _ in read_entries(trace("philly"), block)][:3] == [2, 13, 19]


def test_an_entry_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    """A broken quote in a large file: refused at once, where nothing can mend it."""
    path = tmp_path / "cluster_job_log"
    path.write_text('[{"a": oops},' + '{"a": 1},\n' * 2_000_000 + "1]")
    tracemalloc.start()
    with pytest.raises(TraceError, match="not JSON: Expecting value"):
        list(read_entries(path))
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()


@exhaustive
def test_memory_is_that_of_the_columns(tmp_path: Path) -> None:
    """Of 90,000 rows of 110 bytes, as of 30,000: only the columns grow, by 28 bytes each.

    What is in memory besides is a chunk of rows.
    """
    peaks = []
    for count in (30_000, 90_000):
        path = tmp_path / f"{count}.csv"
        with path.open("w") as file:
            file.write(HELIOS + "\n")
            file.writelines(f"{k},u{k % 99}" + GOOD[3:] + "\n" for k in range(count))
        tracemalloc.start()
        jobs = helios_jobs(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(jobs) == count
    assert peaks[1] - peaks[0] < 60_000 * 28 * 2.5
    assert peaks[1] < 40e6


CELLS = st.one_of(st.sampled_from(["", "1", "0", "nan", "-1", "1e99", "T4", "COMPLETED", "Pass",
                                   "2020-04-01 08:00:00", "9999-12-31 23:59:59", '"', "é"]),
                  st.text(max_size=5))


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=examples(60), deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_table_is_a_workload_or_an_error(trace, tmp_path: Path, name: str, data) -> None:
    lines = trace(name).read_text().splitlines()
    row = lines[1].split(",")
    place = data.draw(st.integers(0, len(row) - 1))
    row[place] = data.draw(CELLS)
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join((*lines, ",".join(row), data.draw(st.text(max_size=8)))
                               ).encode("utf-8", "surrogatepass"))
    with suppress(NetsimError):
        assert len(read_workload(path, format=name, train=0))


@settings(max_examples=examples(100), deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 3000), put=st.text(max_size=6), drop=st.integers(0, 3))
def test_any_json_is_a_workload_or_an_error(trace, tmp_path: Path, cut: int, put: str, drop: int
                                            ) -> None:
    text = trace("philly").read_text()
    path = tmp_path / "log"
    path.write_bytes((text[:cut] + put + text[cut + drop:]).encode("utf-8", "surrogatepass"))
    with suppress(NetsimError):
        assert len(read_workload(path, format="philly", train=0))


@settings(max_examples=examples(100), deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=60))
@pytest.mark.parametrize("name", ["helios", "pai", "philly"])
def test_any_bytes_are_an_error(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "any"
    path.write_bytes(data)
    with pytest.raises(NetsimError):
        read_workload(path, format=name)


def test_a_header_may_have_spaces_and_the_file_any_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa, b\r\n1,2\r3,\"4\n5\"\r\n")
    for size in (1, 2, 3, 100):
        chunks = list(read_table(path, ("b",), chunk=size))
        assert [line for chunk in chunks for line in chunk.lines] == [2, 4]
        assert [cell for chunk in chunks for cell in chunk.cells["b"]] == ["2", "4\n5"]


def test_blank_lines_are_passed_over_in_any_chunk(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n\na,b\n\n1,2\n  \n\n\n3,4\n\n")
    for size in range(1, 12):
        chunks = list(read_table(path, ("a",), chunk=size))
        assert [line for chunk in chunks for line in chunk.lines] == [5, 9]
        assert [cell for chunk in chunks for cell in chunk.cells["a"]] == ["1", "3"]


@settings(max_examples=examples(60), deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=st.sampled_from(["job", "task", "instance", "group_tag"]), row=st.integers(0, 20),
       place=st.integers(0, 12), cell=CELLS)
def test_any_tables_of_pai_are_a_workload_or_an_error(
    trace, tmp_path: Path, table: str, row: int, place: int, cell: str
) -> None:
    shutil.copytree(trace("pai").parent, tmp_path, dirs_exist_ok=True)
    file = tmp_path / f"pai_{table}_table.csv"
    rows = [line.split(",") for line in file.read_text().splitlines()]
    cells = rows[row % len(rows)]
    cells[place % len(cells)] = cell
    file.write_bytes("\n".join(map(",".join, rows)).encode("utf-8", "surrogatepass"))
    with suppress(NetsimError):
        assert len(read_workload(tmp_path / "pai_job_table.csv", format="pai", instances=True,
                                 train=0))


@pytest.mark.parametrize(("line", "message"), [
    ("1 2 3", "3 fields, where a line of the format has 18: '1,2,3'"),
    ("1 0 0 many 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "run_time must be a number from 0 to .*'many'"),
    ("1 0 0 9 1 1 1 1.5 1 1 1 1 1 1 1 1 1 1", "requested must be a whole number .*'1.5'"),
    ("1 0 0 9 1 1 1 -2 1 1 1 1 1 1 1 1 1 1", "requested must be a whole number .*'-2'"),
])
def test_lines_of_swf(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "t.swf"
    path.write_text(f"; a comment\n\n{line}\n")
    with pytest.raises(TraceError, match=message) as caught:
        read_workload(path)
    assert caught.value.line == 3


def test_compressed_swf(tmp_path: Path) -> None:
    """As the Parallel Workloads Archive has it; errors name the line of the text inside."""
    text = (Path(__file__).parent / "jobs.swf").read_bytes()
    path = tmp_path / "jobs.swf.gz"
    path.write_bytes(gzip.compress(text, mtime=0))
    assert len(read_workload(path, train=0)) == 4
    for data, message in ((gzip.compress(text, mtime=0)[:-3], "damaged gzip: it ends too early"),
                          (gzip.compress(b"1 2\n3 \xff\n", mtime=0), "gz:2: byte 0xff is not UTF")):
        path.write_bytes(data)
        with pytest.raises(TraceError, match=message):
            read_workload(path)
    path.write_bytes(gzip.compress(text, mtime=0))
    with pytest.raises(TraceError, match="limit of 99 bytes of a compressed file"):
        read_workload(path, limits={"bytes": 99})


def test_swf_without_jobs(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_text("; only a comment\n")
    with pytest.raises(TraceError, match="holds no jobs"):
        read_workload(path)
