"""The coflow-benchmark reader: what a line means, what is refused, and the Facebook trace."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.traces import FORMATS, check_trace, read_coflow_benchmark, read_workload
from netsim.workload import Workload
from tests.examples import examples

CHECKOUT = Path(__file__).parents[2]
SAMPLE = CHECKOUT / "workloads" / "coflow-sample.txt"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Workload]:
    """Return a reader of lines, written to a file ``t.txt``."""

    def reader(*lines: str, **options: object) -> Workload:
        (tmp_path / "t.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return read_coflow_benchmark(tmp_path / "t.txt", **options)

    return reader


def rows(workload: Workload, job: int = 0, stage: int = 0) -> list[tuple[int, int, float]]:
    return [tuple(flow) for flow in workload.jobs[job].stages[stage].flows]


def test_a_line_is_a_job_of_one_coflow(read) -> None:
    """9 MB over three mappers are 3 MB each; reducer by reducer, mappers in file order."""
    workload = read("4 1", "7 1500 3 2 0 1 2 3:9.0 2:0.75", seed=5)
    (job,) = workload
    assert (workload.name, workload.seed) == ("t", 5)
    assert (job.id, job.arrival_s, job.hosts, job.iterations) == (7, 1.5, (0, 1, 2, 3), 1)
    (stage,) = job.stages
    assert (stage.name, stage.coflow_id, stage.after, stage.weight) == ("7", 7, (), 1.0)
    assert rows(workload) == [(2, 3, 3e6), (0, 3, 3e6), (1, 3, 3e6),
                              (2, 2, 0.25e6), (0, 2, 0.25e6), (1, 2, 0.25e6)]


def test_options(read) -> None:
    lines = ("3 2", "1 500 1 1 1 3:2", "2 1000 1 2 1 2:1")
    workload = read(*lines, first_port=1, megabyte="1MiB", arrival_scale=0.5)
    assert rows(workload) == [(0, 2, 2.0 * 2**20)]
    assert rows(workload, 1) == [(1, 1, 2.0**20)]
    assert [job.arrival_s for job in workload] == [0.25, 0.5]
    assert [job.id for job in read(*lines, first_port=1, limit=1)] == [1]
    assert len(read(*lines, first_port=1, limit=5)) == 2


def test_a_chain_of_coflows_is_one_job() -> None:
    workload = read_coflow_benchmark(SAMPLE, chain=3)
    assert [job.id for job in workload] == [1, 4, 7]
    assert [job.arrival_s for job in workload] == [0.0, 0.2, 1.2]
    assert [[stage.name for stage in job.stages] for job in workload] == [
        ["1", "2", "3"], ["4", "5", "6"], ["7", "8"]]
    assert [stage.after for stage in workload.jobs[1].stages] == [(), ("4",), ("5",)]
    assert {stage.release_s for job in workload for stage in job.stages} == {0.0}
    assert [len(job.stages) for job in read_coflow_benchmark(SAMPLE, chain=3, limit=4)] == [3, 1]


def test_a_chain_runs_one_after_the_other() -> None:
    """Coflows 4 and 5 of the sample alone: 90 MB into a port and then 6 MB, at 8 ms per MB."""
    workload = read_coflow_benchmark(SAMPLE, chain=3, limit=5)
    chain = Workload(workload.jobs[1:])
    network = netsim.big_switch(6, "1Gbps", loopback_uses_ports=True)
    jobs = netsim.simulate(network, chain).jobs
    assert jobs["jct_s"].tolist() == pytest.approx([(90 + 6) * 0.008], rel=1e-12)


def deadlines(**options: object) -> dict[int, float]:
    workload = read_coflow_benchmark(SAMPLE, **options)
    return {stage.coflow_id: stage.deadline_s for job in workload for stage in job.stages}


def test_deadlines_are_drawn_above_the_least_time(read) -> None:
    """Coflow 1 moves 5 MB into port 1 and 9 MB out of port 0: 72 ms at 1 Gbps, twice that at 1/2.

    Its deadline is from 1 to 1 + x times that; with x = 0 it is that.
    """
    lines = "3 2", "1 0 1 0 2 1:5 2:4", "2 0 1 0 1 1:0"
    assert [job.stages[0].deadline_s for job in read(*lines)] == [None, None]
    assert [job.stages[0].deadline_s for job in read(*lines, deadline_factor=0)] == [0.072, None]
    assert read(*lines, deadline_factor=0, deadline_rate="500Mbps").jobs[
        0].stages[0].deadline_s == 0.144
    for seed in range(examples(20)):
        (due, _) = (job.stages[0].deadline_s for job in read(*lines, deadline_factor=2, seed=seed))
        assert 0.072 < due < 0.216


def test_a_coflows_deadline_depends_on_the_seed_and_its_id() -> None:
    one = deadlines(deadline_factor=1)
    assert len(set(one.values())) == 8
    assert deadlines(deadline_factor=1, chain=3, limit=4).items() < one.items()
    assert all(value != one[coflow] for coflow, value
               in deadlines(deadline_factor=1, seed=1).items())


def test_ports_may_be_named_twice(read) -> None:
    assert rows(read("2 1", "1 0 2 0 0 2 1:2 1:4")) == [
        (0, 1, 1e6), (0, 1, 1e6), (0, 1, 2e6), (0, 1, 2e6)]


def test_blank_lines_and_spaces_are_skipped(read) -> None:
    assert rows(read("", " 2\t1 ", "", "  1   0 1 0 1 1:0 ", "")) == [(0, 1, 0.0)]


LINE = "1 0 1 0 1 1:5"


@pytest.mark.parametrize(("lines", "line", "message"), [
    (["2"], 1, "the header must be 'ports coflows', not 1 fields"),
    ([LINE], 1, "the header must be 'ports coflows', not 6 fields"),
    (["x 1", LINE], 1, "ports must be a whole number from 1 to 100000, not 'x'"),
    (["0 1", LINE], 1, "ports must be a whole number from 1 to 100000, not '0'"),
    (["2 1.5", LINE], 1, "coflows must be a whole number from 1 to 1e+15, not '1.5'"),
    (["2 2", LINE], 1, "the header says 2 coflows, but 1 follow"),
    (["2 1", LINE, "2" + LINE[1:]], 1, "the header says 1 coflows, but 2 follow"),
    (["2 1", "1 0"], 2, "2 fields, where a coflow has: id arrival_ms m mapper_1..mapper_m r "
                        "reducer_1:MB_1..reducer_r:MB_r"),
    (["2 1", "a 0 1 0 1 1:5"], 2, "id must be a whole number from 0 to 1e+15, not 'a'"),
    (["2 1", "1 -3 1 0 1 1:5"], 2, "arrival_ms must be a number from 0 to 1e+18, not '-3'"),
    (["2 1", "1 nan 1 0 1 1:5"], 2, "arrival_ms must be a number from 0 to 1e+18, not 'nan'"),
    (["2 1", "", "1 0 0 1 1:5"], 3,
     "m, the number of mappers, must be a whole number from 1 to 1e+15, not '0'"),
    (["2 1", "1 0 1 0 0"], 2, "r, the number of reducers after 1 mappers, must be a whole number "
                              "from 1 to 1e+15, not '0'"),
    (["2 1", "1 0 2 0 1 1:5"], 2, "r, the number of reducers after 2 mappers, must be a whole "
                                  "number from 1 to 1e+15, not '1:5'"),
    (["2 1", "1 0 9 0 1 1:5"], 2,
     "m is 9, but only 3 fields follow, including r"),
    (["2 1", "1 0 1 0 2 1:5"], 2, "6 fields, where 1 mappers and 2 reducers make 7"),
    (["2 1", "1 0 1 0 1 1:5 0:5"], 2, "7 fields, where 1 mappers and 1 reducers make 6"),
    (["2 1", "1 0 2 0 2 1 1:5"], 2, "mapper_2 must be a whole number from 0 to 1, not '2'"),
    (["2 1", "1 0 1 -1 1 1:5"], 2, "mapper_1 must be a whole number from 0 to 1, not '-1'"),
    (["2 1", "1 0 1 0 2 1:5 2:5"], 2, "reducer_2 must be a whole number from 0 to 1, not '2'"),
    (["2 1", "1 0 1 0 1 1"], 2, "reducer_1 must be port:MB, not '1'"),
    (["2 1", "1 0 1 0 2 1:5 1:"], 2, "MB_2 must be a number from 0 to 1e+18, not ''"),
    (["2 1", "1 0 1 0 1 1:-5"], 2, "MB_1 must be a number from 0 to 1e+18, not '-5'"),
    (["2 1", "1 0 1 0 1 1:inf"], 2, "MB_1 must be a number from 0 to 1e+18, not 'inf'"),
    (["2 1", "1 0 1 0 1 1:1e999"], 2, "MB_1 must be a number from 0 to 1e+18, not '1e999'"),
    (["2 1", "1 0 1 0 1 1:5:6"], 2, "MB_1 must be a number from 0 to 1e+18, not '5:6'"),
    (["2 2", LINE, LINE], 3, "id 1 was given already, on line 2"),
])
def test_a_field_is_named_with_its_line(read, tmp_path, lines, line, message) -> None:
    with pytest.raises(TraceError) as caught:
        read(*lines)
    assert (caught.value.line, caught.value.message) == (line, message)
    assert check_trace(tmp_path / "t.txt").problems == ((line, message),)


def test_ports_count_from_the_first(read) -> None:
    with pytest.raises(TraceError, match="mapper_1 must be a whole number from 1 to 2, not '0'"):
        read("2 1", "1 0 1 0 1 1:5", first_port=1)


def test_every_problem_is_reported(read, tmp_path) -> None:
    with pytest.raises(TraceError, match=r"t\.txt:1: ports must be .* \(and 4 more\)"):
        read("x 3", "1 y 1 z 1 0:w", LINE, LINE)
    assert [line for line, _ in check_trace(tmp_path / "t.txt").problems] == [1, 2, 2, 2, 4]


@pytest.mark.parametrize(("options", "message"), [
    ({"megabyte": "0MB"}, "megabyte must be greater than 0"),
    ({"megabyte": "1 apple"}, "megabyte '1 apple' has the unknown unit"),
    ({"first_port": -1}, "first_port must be a whole number from 0"),
    ({"arrival_scale": -1}, "arrival_scale must be a number from 0"),
    ({"limit": 0}, "limit must be a whole number of at least 1"),
    ({"chain": 0}, "chain must be a whole number of at least 1"),
    ({"chain": 1.5}, "chain must be a whole number of at least 1"),
    ({"deadline_factor": -1}, "deadline_factor must be a number from 0 to 1e\\+18, not -1"),
    ({"deadline_factor": "1"}, "deadline_factor must be a number from 0"),
    ({"deadline_rate": 0}, "deadline_rate must be greater than 0, not 0"),
])
def test_options_out_of_range(options, message) -> None:
    with pytest.raises(InputError, match=message):
        read_coflow_benchmark(SAMPLE, **options)


def test_unsorted_arrivals_are_sorted_with_a_notice(read, tmp_path) -> None:
    lines = ("2 3", "1 9 1 0 1 1:5", "2 9 1 0 1 1:5", "3 4.5 1 0 1 1:5")
    path = tmp_path / "t.txt"
    message = "arrival_ms 4.5 comes after 9; the coflows are sorted by arrival"
    with pytest.warns(NetsimWarning) as caught:
        workload = read(*lines, limit=2)
    assert [job.id for job in workload] == [3, 1]
    assert [str(each.message) for each in caught] == [f"{path}:4: {message}"]
    report = check_trace(path)
    assert (report.problems, report.notices) == ((), ((4, message),))
    assert check_trace(SAMPLE).notices == ()


def test_the_checker_passes_other_warnings_on(monkeypatch) -> None:
    real = read_coflow_benchmark

    @functools.wraps(real)
    def noisy(*arguments: object, **options: object) -> Workload:
        warnings.warn("something else", RuntimeWarning, stacklevel=1)
        return real(*arguments, **options)

    monkeypatch.setitem(FORMATS.places, "coflow-benchmark", noisy)
    with pytest.warns(RuntimeWarning, match="something else"):
        check_trace(SAMPLE)


def test_facts_of_the_sample() -> None:
    """Each sum has a term per coflow, in order: m * r flows, and the MB of all reducers."""
    report = check_trace(SAMPLE)
    assert (report.format, report.problems) == ("coflow-benchmark", ())
    assert dict(report.facts) == {
        "ports": 6, "jobs": 8, "coflows": 8, "flows": 1 + 4 + 3 + 3 + 4 + 36 + 1 + 2,
        "flows from a port to itself": 1 + 1 + 6,  # ports 4 of coflow 3, 5 of 5, all of 6
        "MB in total": 12 + 28 + 36 + 90 + 10 + 420 + 250 + 1,
        "flows per coflow, median": 3, "flows per coflow, most": 36,
        "first arrival (s)": 0.0, "last arrival (s)": 1.201}
    assert len(read_workload("coflow-sample")) == 8


FIELD = st.sampled_from(["0", "1", "2", "3", "-1", "1.5", "1:5", "0:2.5", "2:0", "1:", ":", "x",
                         "nan", "inf", "1e9999", "1e-9999", "0.99999999999999999999", "1_0", "٣",
                         "9" * 30, "0e99999999999999999999", "\x1c", "1:1e300"])
LINES = st.lists(st.lists(FIELD, max_size=9).map(" ".join) | st.sampled_from(
    [LINE, "2 5 2 0 1 2 0:1 1:3.5", "3 2 1 1 1 0:1"]), max_size=4)
TEXTS = st.text() | LINES.flatmap(lambda lines: st.sampled_from(
    ["\n".join([f"3 {len(lines)}", *lines]), "\n".join(lines)]))


@given(data=st.binary() | TEXTS.map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_give_a_workload_or_a_netsim_error(
    data: bytes, tmp_path_factory, outcome
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.txt"
    path.write_bytes(data)
    report = check_trace(path)
    assert bool(report.problems) != bool(report.facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetsimWarning)
        found = outcome(path)
    if isinstance(found, Workload):
        assert dict(report.facts)["jobs"] == len(found)
    else:
        assert found.problems == report.problems


def test_the_facebook_trace() -> None:
    folder = Path(os.environ.get("NETSIM_TRACES", CHECKOUT.parent / "shared" / "data"))
    path = folder / "coflow-benchmark" / "FB2010-1Hr-150-0.txt"
    if not path.is_file():
        pytest.skip(f"no {path}")
    report = check_trace(path)
    facts = dict(report.facts)
    assert report.notices == ()
    assert (facts["ports"], facts["coflows"], facts["flows"]) == (150, 526, 706_397)
    assert (facts["MB in total"], facts["flows from a port to itself"]) == (35_533_534, 4911)
    workload = read_coflow_benchmark(path)
    assert len({job.arrival_s for job in workload}) == 526
    coflows = [job.stages[0].flows for job in workload]
    sizes = np.concatenate([flows.nbytes for flows in coflows])
    assert (sizes % 1e6 == 0).all()
    assert sizes.min() >= 1e6
    bounds = [max(np.bincount(end, weights=flows.nbytes).max() for end in (flows.src, flows.dst))
              for flows in coflows]
    assert np.mean(bounds) / 1e6 * 8 == pytest.approx(14_721.32, abs=0.005)
