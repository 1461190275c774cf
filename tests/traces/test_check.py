"""The door to all formats, workload files and ready-made workloads, and the checker."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.base import reading
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.traces import (
    FORMATS,
    TraceProblemsError,
    check_trace,
    format_of,
    read_workload,
    ready_made,
)
from netsim.traces import library as library_module
from netsim.workload import Workload

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
GOOD = "0,1,0,100,vgg19,200,30"


@pytest.fixture
def write(tmp_path: Path):
    """Return a function that writes a file into a fresh folder."""

    def writer(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return writer


def test_facts_of_pattern_jobs(sample) -> None:
    """W = P = 2, 4, 8, 2, 16, 2; a coflow has W*P flows of mean L/2; two per iteration.

    Flows: 2 * sum(iterations * W * P) = 2 * (1600 + 1600 + 3200 + 4000 + 10240 + 800) = 42,880.
    Bytes: sum(iterations * W * P * L), L = 100, 500, 1000, 25, 750, 325 MB:
    160 + 800 + 3200 + 100 + 7680 + 260 = 12,200 GB.
    """
    report = check_trace(sample)
    assert (report.path, report.format, report.problems) == (sample, "tiresias", ())
    assert dict(report.facts) == {
        "jobs": 6, "coflows": 3580, "flows": 42_880, "bytes in total": pytest.approx(12.2e12),
        "workers per job, least": 2, "workers per job, median": 3.0, "workers per job, most": 16,
        "iterations per job, least": 40, "iterations per job, median": 150.0,
        "iterations per job, most": 1000, "first arrival (s)": 0.0, "last arrival (s)": 150.0}


def test_facts_of_rings(write) -> None:
    """What they send depends on who runs them; how many ranks they have does not."""
    path = write("a.toml", 'format = "ring-jobs"\nmix = {"1" = 2, "4" = 1}\n')
    found = dict(check_trace(path).facts)
    assert [found[key] for key in ("jobs", "ranks per job, median", "ranks per job, most")] == [
        3, 1, 4]
    assert "coflows" not in found


def test_facts_of_explicit_jobs(write) -> None:
    """Three iterations of two coflows, of 2 and 0 flows: 6 coflows, 6 flows, 3 * 9 bytes."""
    flows = [{"src": 0, "dst": 5, "bytes": 4}, {"src": 0, "dst": 2, "bytes": 5}]
    path = write("a.json", json.dumps({"jobs": [
        {"coflows": [flows, []], "iterations": 3, "arrival_s": 2},
        {"stages": [{"name": "only compute"}], "arrival_s": 1}]}))
    found = dict(check_trace(path).facts)
    assert [found[key] for key in ("jobs", "coflows", "flows", "bytes in total")] == [2, 6, 6, 27]
    assert [found[f"hosts per job, {which}"] for which in ("least", "median", "most")] == [
        0, 1.5, 3]
    assert (found["first arrival (s)"], found["last arrival (s)"]) == (1, 2)


def test_every_bad_line_is_reported(write) -> None:
    path = write("t.csv", "\n".join([HEADER, "0,x,0,0,m,200,30", GOOD, "1,1", GOOD, GOOD]))
    report = check_trace(path)
    assert report.facts == ()
    assert report.problems == (
        (2, "num_gpu must be a whole number from 1 to 1e+15, not 'x'"),
        (2, "iterations must be a whole number from 1 to 1e+15, not '0'"),
        (4, "2 fields, where the header has 7: '1,1'"),
        (5, "job_id 0 was given already, on line 3"),
        (6, "job_id 0 was given already, on line 3"))
    with pytest.raises(TraceError) as caught:
        read_workload(path)
    assert str(caught.value) == f"{path}:2: {report.problems[0].message} (and 4 more)"


@pytest.mark.parametrize("door", [check_trace, read_workload])
def test_a_missing_file_or_a_folder(tmp_path: Path, door) -> None:
    for path, message in ((tmp_path / "no.csv", "no such file"), (tmp_path / "no", "no such file"),
                          (tmp_path, "is a folder, not a file"), ("a\0.csv", "no such file"),
                          ("n" * 5000 + ".csv", "no such file"), ("", "no such file")):
        with pytest.raises(TraceError, match=message) as caught:
            door(path)
        assert caught.value.path == str(path)


def test_wrong_arguments_are_raised_by_both(sample) -> None:
    for door in (check_trace, read_workload):
        with pytest.raises(UnknownNameError, match=r"unknown tiresias option 'lenght' \(did "
                           r"you mean 'length'\?\); choose from: arrival_scale, iterations, "):
            door(sample, lenght=1)
        with pytest.raises(InputError, match="iterations must be"):
            door(sample, iterations=0)
        with pytest.raises(InputError, match="length '1 apple'"):
            door("parrot-60", length="1 apple")
        with pytest.raises(InputError, match=r"^seed must be .* not -1"):
            door("parrot-60", seed=-1)
        with pytest.raises(UnknownNameError, match="unknown workload format 'cvs'; choose from: "
                           "acme, batsim, chakra, coflow-benchmark, flows, gpu-v2023, helios,"):
            door(sample, format="cvs")


def test_formats() -> None:
    assert sorted(FORMATS) == [
        "acme", "batsim", "chakra", "coflow-benchmark", "flows", "gpu-v2023", "helios", "hpcc",
        "htsim", "json", "kineto", "llm", "pai", "pai-100k", "pattern", "philly", "recurrent",
        "ring-jobs", "simai", "swf", "synthetic", "tiresias", "tiresias-cluster"]
    assert [name for name in FORMATS if not format_of(name).needs_file] == [
        "synthetic", "ring-jobs", "llm", "pattern", "recurrent"]
    assert format_of("json").options == ("poisson_jobs", "poisson_mean", "limits")
    assert "redraw" in format_of("tiresias").options
    assert set(format_of("synthetic").options) - set(format_of("tiresias").options) == {
        "jobs", "trace_seed"}
    assert all(map(FORMATS.help, FORMATS))


def test_the_format_must_be_known(write, sample, facts) -> None:
    with pytest.raises(InputError, match="give a file, a ready-made workload's name, or a format"):
        read_workload()
    with pytest.raises(InputError, match="the format 'tiresias' needs a file"):
        read_workload(format="tiresias")
    with pytest.raises(InputError, match="'synthetic' generates a workload; it cannot read"):
        read_workload(sample, format="synthetic")
    path = write("trace.dat", sample.read_text(encoding="utf-8"))
    with pytest.raises(InputError, match=r"trace\.dat: no format has the suffix '\.dat'"):
        read_workload(path)
    assert facts(read_workload(path, format="tiresias")) == facts(read_workload(sample))


def test_ready_made_workloads() -> None:
    found = ready_made()
    assert list(found) == sorted(found)
    assert {"coflow-sample", "parrot-60", "parrot-60-full", "parrot-fig2"} <= set(found)
    assert "tiresias-sample" not in found
    assert all(text and "\n" not in text for text in found.values())
    for name in found:
        assert read_workload(name).name == name


def test_parrot_60(facts) -> None:
    """The reading closest to Fig. 5; `seed` draws the sizes and leaves the trace as it is."""
    workload = read_workload("parrot-60", seed=3)
    assert (len(workload), workload.seed) == (60, 3)
    assert {job.iterations for job in workload} == {10}
    assert max(job.nbytes for job in workload) == 250e6
    assert facts(workload) == facts(read_workload("parrot-60"))
    full = read_workload("parrot-60-full")
    assert [job.arrival_s for job in full] == pytest.approx(
        [20 * job.arrival_s for job in workload])
    assert [job.nbytes for job in full] == pytest.approx([4 * job.nbytes for job in workload])
    assert max(job.iterations for job in full) > 1000


def test_names() -> None:
    assert read_workload("parrot-60", iterations=2).jobs[0].iterations == 2
    with pytest.raises(UnknownNameError, match=r"unknown workload 'parrot-61' \(did you mean "
                       r"'parrot-60'\?\); choose from: .*parrot-60, parrot-60-full, "):
        read_workload("parrot-61")
    with pytest.raises(TraceError, match="no such file"):
        read_workload("../workloads/parrot-60")


def test_a_workload_file_names_its_format_and_a_file_beside_it(
    write, tmp_path: Path, sample, facts
) -> None:
    write("t.csv", sample.read_text(encoding="utf-8"))
    path = write("mine.toml", 'file = "t.csv"\nseed = 4\nlength = "10MB"\ndescription = "x"\n')
    workload = read_workload(path)
    assert (workload.name, workload.seed) == ("mine", 4)
    assert facts(workload) == facts(read_workload(sample, length="10MB"))
    assert read_workload(path, seed=5).seed == 5
    assert max(job.nbytes for job in read_workload(path, length="3MB")) == 3e6
    report = check_trace(path)
    assert (report.path, report.format) == (tmp_path / "t.csv", "tiresias")
    assert read_workload(write("a.toml", 'name = "b"\nformat = "synthetic"\n')).name == "b"


@pytest.mark.parametrize(("text", "line", "message"), [
    ('format = "json\n', 1, "is not TOML: Illegal character"),
    ("file = data.csv\n", 1,
     'is not TOML: Invalid value (at line 1, column 8); quote strings: file = "data.csv"'),
    ("", 1, "the file is empty"),
    ("jobs = 3", None, "a workload file must name a 'format', or a 'file' whose suffix is that of "
                       "a format"),
    ('format = "synthetic"\njobbs = 3', None, "unknown synthetic option 'jobbs' (did you mean "
                                              "'jobs'?)"),
    ('format = "synthtic"', None, "unknown workload format 'synthtic' (did you mean"),
    ('format = "synthetic"\njobs = 0', None,
     "jobs must be a whole number from 1 to 1,000,000, not 0"),
    ('format = "synthetic"\nlength = 1979-05-27', None, "length must be a number or a string"),
    ('format = "synthetic"\nseed = "a"', None, "seed must be a whole number"),
    ('format = "synthetic"\npoisson_jobs = 3', None, "give both or neither of poisson_jobs"),
    ("format = 3", None, "format must be a string, not 3"),
    ('format = "synthetic"\nname = 3', None, "name must be a string, not 3"),
    ('file = "other.toml"', None, "file must not be another workload file, such as 'other.toml'"),
    ('[network]\nname = "x"', None, "an experiment (it has a [network] table), not a workload"),
    ('format = "synthetic"\n[allocator]\nname = "x"', None,
     "an experiment (it has a [allocator] table), not a workload"),
])
def test_a_workload_file_that_is_wrong(write, text: str, line: int | None, message: str) -> None:
    path = write("mine.toml", text)
    with pytest.raises(TraceError) as caught:
        read_workload(path)
    assert (caught.value.path, caught.value.line) == (path, line)
    assert caught.value.message.startswith(message)
    report = check_trace(path)
    assert [problem.line for problem in report.problems] == [line]
    assert report.problems[0].message.startswith(message)


def test_a_workload_file_keeps_its_format(write) -> None:
    path = write("mine.toml", 'format = "synthetic"\njobs = 2\n')
    assert len(read_workload(path, format="synthetic")) == 2
    with pytest.raises(InputError, match="the file names its format, 'synthetic'; 'json' cannot"):
        read_workload(path, format="json")


def test_problems_in_the_file_that_a_workload_file_names(write, tmp_path: Path) -> None:
    write("t.csv", HEADER + "\n1,1\n")
    report = check_trace(write("mine.toml", 'file = "t.csv"'))
    assert (report.path, [line for line, _ in report.problems]) == (tmp_path / "t.csv", [2])
    with pytest.raises(TraceError, match=r"none\.csv: no such file"):
        check_trace(write("other.toml", 'file = "none.csv"'))


def test_experiments_are_not_ready_made_workloads(
    write, tmp_path: Path, monkeypatch, sample
) -> None:
    write("experiment.toml", '[workload]\nname = "parrot-60"\n[network]\nhosts = 4\n')
    write("b.toml", 'format = "synthetic"\ndescription = "sixty jobs"\n')
    write("c.json", json.dumps({"note": "a case", "jobs": [{"coflows": [[]]}]}))
    write("d.csv", sample.read_text(encoding="utf-8"))
    for module in (library_module, reading):
        monkeypatch.setattr(module, "ready_made_folder", lambda name: tmp_path)
    assert ready_made() == {"b": "sixty jobs", "c": "a case"}
    assert len(read_workload("b")) == 60
    with pytest.raises(TraceError, match=r"experiment\.toml: an experiment \(it has a \[network\]"):
        read_workload("experiment")


def test_problems_travel_between_processes() -> None:
    error = TraceProblemsError([(3, "first"), (None, "second")], "t.csv")
    assert str(error) == "t.csv:3: first (and 1 more)"
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.problems, again.path) == (str(error), error.problems, "t.csv")


OPTIONS = st.sampled_from([
    "iterations = 3", "iterations = 0", 'length = "5MB"', 'length = "x"', "servers = 2",
    "servers_max = 3", "seed = 1", "seed = -1", "poisson_jobs = 4", 'poisson_mean = "1s"',
    "poisson_mean = inf", "arrival_scale = nan", "jobs = 4", "trace_seed = []", "redraw = 1",
    "name = 'n'", "x = 1", "[network]", 'file = "x"', 'format = "tiresias"'])


@given(text=st.text() | st.lists(OPTIONS, max_size=5).map(
    lambda lines: "\n".join(['format = "synthetic"', *lines])))
def test_any_workload_file_gives_a_workload_or_a_netsim_error(
    text: str, tmp_path_factory, outcome
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "w.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    found = outcome(path)
    if isinstance(found, Workload):
        assert check_trace(path).problems == ()
        assert dict(check_trace(path).facts)["jobs"] == len(found)
    else:
        assert "w.toml" in str(found) or str(found).endswith("x: no such file")
