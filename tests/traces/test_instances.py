"""Explicit instances in JSON: both forms, their graphs, and what is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.base.json_tree import lines_of_values
from netsim.errors import NetsimError, TraceError
from netsim.traces import check_trace, read_instances, read_workload
from netsim.workload import Workload
from tests.offenders import check_each

FLOW = {"src": 0, "dst": 1, "bytes": 5}


def job(*coflows: list[dict[str, Any]], **keys: Any) -> dict[str, Any]:
    return {"coflows": list(coflows or ([FLOW],)), **keys}


def coflow(number: int, **keys: Any) -> dict[str, Any]:
    return {"id": number, "flows": [FLOW], **keys}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Workload]:
    """Return a reader of a document, or of its text, written to ``case.json``."""

    def reader(document: object) -> Workload:
        text = document if isinstance(document, str) else json.dumps(document)
        (tmp_path / "case.json").write_text(text, encoding="utf-8")
        return read_instances(tmp_path / "case.json")

    return reader


def refused(read: Callable[..., Workload], document: object) -> list[str]:
    """Return the problems of a document that must be refused."""
    with pytest.raises(TraceError) as caught:
        read(document)
    return [problem.message for problem in caught.value.problems]


def test_a_chain_per_job(read) -> None:
    workload = read({"name": "two", "note": "x", "theta_max": 0.9, "hosts": 4, "results": [{}],
                     "jobs": [job([FLOW, {"src": 3, "dst": 0, "bytes": 1.5}], [], iterations=3,
                                  compute_s=[0.25, 0], name="net"),
                              job(arrival_s=-0.0)]})
    first, second = sorted(workload, key=lambda spec: spec.id)
    assert (workload.name, first.id, second.id) == ("two", 0, 1)
    assert (first.iterations, first.name, first.ranks, first.hosts) == (3, "net", 4, (0, 1, 2, 3))
    assert [stage.name for stage in first.stages] == ["c0", "c1"]
    assert [stage.after for stage in first.stages] == [(), ("c0",)]
    assert [stage.compute_s for stage in first.stages] == [0.25, 0]
    assert [tuple(flow) for flow in first.stages[0].flows] == [(0, 1, 5.0), (3, 0, 1.5)]
    assert len(first.stages[1].flows) == 0
    assert second.hosts == (0, 1)


def test_ranks_that_compute(read) -> None:
    """On hosts 3 and 1, by number or by name; ranks of names are in order of their mention."""
    for hosts, ranks in (([3, 1], (3, 1)), (["b", "a"], (0, 1))):
        spec = read({"jobs": [{"stages": [
            {"name": "p", "compute_s": 2, "computes_on": hosts, "after_previous": ["p"],
             "stream": "s"},
            {"name": "r", "flows": [{"src": hosts[0], "dst": hosts[1], "bytes": 5}],
             "after": ["p"]}]}]}).jobs[0]
        one, other = spec.stages
        assert (one.ranks, one.stream, one.after_previous) == (ranks, "s", ("p",))
        assert [spec.hosts[rank] for rank in one.ranks] == hosts
        assert [tuple(flow) for flow in other.flows] == [(*ranks, 5.0)]
        assert spec.ranks == max(ranks) + 1


def test_a_dag_of_stages(read) -> None:
    stages = [{"name": "a", "compute_s": 2}, {"name": "b", "flows": [FLOW], "after": ["a"]},
              {"name": "d", "flows": [FLOW], "after": ["a"], "finishes_before": ["b"]}]
    spec = read({"jobs": [{"arrival_s": 7, "stages": stages}]}).jobs[0]
    a, b, d = spec.stages
    assert (a.flows, a.compute_s, b.after, d.after, d.finishes_before) == (
        None, 2.0, ("a",), ("a",), ("b",))
    assert spec.arrival_s == 7


def test_a_coflow_alone_is_a_job(read) -> None:
    """Its job has the coflow's id and arrival; the stage is released with the job."""
    workload = read({"coflows": [coflow(9, arrival_s=4, weight=2.5, deadline_s=0.5),
                                 coflow(2, arrival_s=6)]})
    assert [(spec.id, spec.arrival_s, spec.hosts) for spec in workload] == [
        (9, 4.0, (0, 1)), (2, 6.0, (0, 1))]
    stage = workload.jobs[0].stages[0]
    assert (stage.name, stage.coflow_id, stage.weight, stage.release_s) == ("9", 9, 2.5, 0.0)
    assert [spec.stages[0].deadline_s for spec in workload] == [0.5, None]


def test_coflows_of_one_job(read) -> None:
    """They are released when they arrive: 5 - 3 and 3 - 3 seconds after their job."""
    workload = read({"coflows": [coflow(1, arrival_s=5, job=7), coflow(4, arrival_s=3, job=7),
                                 coflow(8, arrival_s=9, starts_after=[4])]})
    assert len(workload) == 1
    spec = workload.jobs[0]
    assert (spec.id, spec.arrival_s) == (7, 3.0)
    assert [(stage.coflow_id, stage.release_s, stage.after) for stage in spec.stages] == [
        (1, 2.0, ()), (4, 0.0, ()), (8, 6.0, ("4",))]


def test_connected_coflows_are_one_job(read) -> None:
    """5 - 3 - 6 is one component by way of 3, with the smallest id 3; 4 is alone."""
    workload = read({"coflows": [coflow(5, starts_after=[3]), coflow(4),
                                 coflow(6, finishes_before=[3]), coflow(3)]})
    assert sorted(spec.id for spec in workload) == [3, 4]
    spec = next(spec for spec in workload if spec.id == 3)
    assert [stage.name for stage in spec.stages] == ["5", "6", "3"]
    assert (spec.stages[0].after, spec.stages[1].finishes_before) == (("3",), ("3",))


@given(order=st.permutations(range(8)))
def test_components_do_not_depend_on_the_order(order: list[int], tmp_path_factory) -> None:
    """0-1-2-3 by starts_after, 4 and 5 by finishes_before, 5 and 6 by their job, 7 alone."""
    entries = [coflow(0), coflow(1, starts_after=[0]), coflow(2, starts_after=[1]),
               coflow(3, starts_after=[2]), coflow(4), coflow(5, finishes_before=[4], job=90),
               coflow(6, job=90), coflow(7)]
    path = tmp_path_factory.mktemp("order") / "case.json"
    path.write_text(json.dumps({"coflows": [entries[k] for k in order]}), encoding="utf-8")
    members = {spec.id: {stage.coflow_id for stage in spec.stages} for spec in
               read_instances(path)}
    assert members == {0: {0, 1, 2, 3}, 90: {4, 5, 6}, 7: {7}}


def test_the_example_of_section_2_5() -> None:
    """Lower bounds 18 and 10 s: each host sends and receives at 1e6 bytes/s, loops included."""
    workload = read_workload("parrot-fig2")
    bounds = []
    for spec in workload:
        loads = [max(stage.flows.nbytes[end == host].sum() for host in (0, 1)
                     for end in (stage.flows.src, stage.flows.dst)) for stage in spec.stages]
        bounds.append(sum(loads) / 1e6)
    assert bounds == [18.0, 10.0]
    assert [stage.flows.nbytes.tolist() for stage in workload.jobs[0].stages] == [
        [3e6, 3e6, 2e6, 2e6], [6e6, 6e6, 5e6, 5e6]]


@pytest.mark.parametrize(("text", "line", "message"), [
    ('{"jobs": [\n{]}', 2, "not JSON: Expecting property name enclosed in double quotes "
                           "at column 2"),
    ("[1, 2]", None, "the file must hold a JSON object, not [1, 2]"),
    ("", 1, "the file is empty"),
    ("{}", None, "the file must hold either 'jobs' or 'coflows'"),
    ('{"jobs": [], "coflows": []}', None, "the file must hold either 'jobs' or 'coflows'"),
])
def test_a_document_that_is_none(read, text: str, line: int | None, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(text)
    assert (caught.value.line, caught.value.message) == (line, message)
    assert str(caught.value).startswith(
        f"{caught.value.path}:{line}: " if line else f"{caught.value.path}: ")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"jobs": ' + "9" * 5000 + "}"])
def test_documents_beyond_the_parser(read, text: str) -> None:
    assert [message[:16] for message in refused(read, text)] == ["not read as JSON"]


SIZE = "a number from 0 to 1e+18"


#: Documents, each with the only problem that it has.
WRONG = [
    ({"jobs": {}}, "jobs must be a list, not {}"),
    ({"jobs": []}, "jobs must not be empty"),
    ({"jobs": [5]}, "jobs[0] must be an object, not 5"),
    ({"jobs": [{}]}, "jobs[0]: give either 'coflows' or 'stages'"),
    ({"jobs": [{"coflows": []}]}, "jobs[0].coflows must not be empty"),
    ({"jobs": [{"stages": []}]}, "jobs[0].stages must not be empty"),
    ({"jobs": [job(name=3)]}, "jobs[0].name must be a string, not 3"),
    ({"jobs": [job(arrival_s=-1)]}, f"jobs[0].arrival_s must be {SIZE}, not -1"),
    ({"jobs": [job(iterations=0)]},
     "jobs[0].iterations must be a whole number from 1 to 1e+15, not 0"),
    ({"jobs": [job(compute_s=[1, 2])]},
     "jobs[0].compute_s must have one entry for each of the 1 coflows, not 2"),
    ({"jobs": [job(compute_s=["1s"])]}, f"jobs[0].compute_s[0] must be {SIZE}, not '1s'"),
    ({"jobs": [job(arival_s=1)]},
     "jobs[0]: unknown key 'arival_s' (did you mean 'arrival_s'?); choose from: arrival_s, "
     "coflows, compute_s, group, iterations, name, stages, weight"),
    ({"jobs": [job(), job([FLOW], [FLOW, {"src": 0, "dst": 1, "bytes": -5}])]},
     f"jobs[1].coflows[1][1].bytes must be {SIZE}, not -5"),
    ({"jobs": [job([{"src": 0, "dst": 1}])]}, "jobs[0].coflows[0][0]: the key 'bytes' is "
     "missing in {'dst': 1, 'src': 0}"),
    ({"jobs": [job([{**FLOW, "size": 1}])]},
     "jobs[0].coflows[0][0]: unknown key 'size'; choose from: bytes, dst, src"),
    ({"jobs": [job([[0, 1, 5]])]},
     "jobs[0].coflows[0][0] must be an object with src, dst, bytes, not [0, 1, 5]"),
    ({"hosts": 2, "jobs": [job([{**FLOW, "dst": 2}])]},
     "jobs[0].coflows[0][0].dst must be a whole number from 0 to 1, not 2"),
    ({"jobs": [job([{**FLOW, "src": 10**6}])]},
     "jobs[0].coflows[0][0].src must be a whole number from 0 to 99999, not 1000000"
     "; limits = {ports = ...} allows more"),
    ({"jobs": [job([{**FLOW, "src": 0.5}])]},
     "jobs[0].coflows[0][0].src must be a whole number from 0 to 99999, not 0.5"),
    ({"jobs": [job([{**FLOW, "src": True}])]},
     "jobs[0].coflows[0][0].src must be a whole number from 0 to 99999, not True"),
    ({"hosts": 0, "jobs": [job()]}, "hosts must be a whole number from 1 to 100000, not 0"),
    ({"name": None, "jobs": [job()]}, "name must be a string, not None"),
    ({"jobs": [{"stages": [{"flows": []}]}]}, "jobs[0].stages[0]: the key 'name' is missing "
     "in {'flows': []}"),
    ({"jobs": [{"stages": [{"name": "a", "after": ["z"]}]}]},
     "jobs[0]: job 0: stage 'a' depends on 'z', which is not one of its stages: a"),
    ({"jobs": [{"stages": [{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}]}]},
     "jobs[0]: job 0: dependency cycle among stages a, b"),
    ({"jobs": [{"stages": [{"name": "a"}, {"name": "a"}]}]},
     "jobs[0]: job 0: two stages are named 'a'"),
    ({"jobs": [{"stages": [{"name": "a", "after": "b"}]}]},
     "jobs[0].stages[0].after must be a list, not 'b'"),
    ({"jobs": [{"stages": [{"name": "a", "after": [1]}]}]},
     "jobs[0].stages[0].after[0] must be a string, not 1"),
    ({"jobs": [{"stages": [{"name": "a", "weight": 1}]}]},
     "jobs[0].stages[0]: unknown key 'weight'; choose from: after, after_previous, compute_s, "
     "computes_on, continues, deadline_s, finishes_before, flows, name, overhead_s, steps, stream"),
    ({"jobs": [{"stages": [{"name": "a", "compute_s": 1, "computes_on": [1, 2, 1]}]}]},
     "jobs[0].stages[0].computes_on[2] is there twice: 1"),
    ({"jobs": [{"stages": [{"name": "a", "compute_s": 1, "computes_on": [-1]}]}]},
     "jobs[0].stages[0].computes_on[0] must be a whole number from 0 to 99999, not -1"),
    ({"jobs": [{"stages": [{"name": "a", "computes_on": [0], "after_previous": ["b"]}]}]},
     "jobs[0]: job 0: after_previous of stage 'a' names 'b', which is not one of its stages: a"),
    ({"jobs": [{"stages": [{"name": "a", "overhead_s": -1}]}]},
     "jobs[0].stages[0].overhead_s must be a number from 0 to 1e+15, not -1"),
    ({"jobs": [{"stages": [{"name": "a", "flows": [FLOW], "steps": [
        {"flows": [1], "times": 2}]}]}]},
     "jobs[0].stages[0].steps[0].flows[0] must be a whole number from 0 to 0, not 1"),
    ({"jobs": [{"stages": [{"name": "a", "flows": [FLOW], "steps": [
        {"flows": [0], "times": 0}]}]}]},
     "jobs[0].stages[0].steps[0].times must be a whole number from 1 to 1e+15, not 0"),
    ({"jobs": [{"stages": [{"name": "a", "flows": [FLOW], "steps": [{"flows": [0]}]}]}]},
     "jobs[0].stages[0].steps[0]: the key 'times' is missing in {'flows': [0]}"),
    ({"jobs": [{"stages": [{"name": "a", "deadline_s": -1}]}]},
     "jobs[0].stages[0].deadline_s must be a number from 1e-18 to 1e+18, not -1"),
    ({"jobs": [{"stages": [{"name": "a"}], "compute_s": [1]}]},
     "jobs[0].compute_s: where a job has 'stages', give it in each"),
    ({"coflows": []}, "coflows must not be empty"),
    ({"coflows": [{"flows": []}]}, "coflows[0]: the key 'id' is missing in {'flows': []}"),
    ({"coflows": [coflow(1, iterations=2)]},
     "coflows[0]: unknown key 'iterations'; choose from: arrival_s, continues, deadline_s, "
     "finishes_before, flows, id, job, overhead_s, starts_after, weight"),
    ({"coflows": [coflow(1, deadline_s=0)]},
     "coflows[0].deadline_s must be a number from 1e-18 to 1e+18, not 0"),
    ({"coflows": [coflow(-1)]}, "coflows[0].id must be a whole number from 0 to 1e+15, not -1"),
    ({"coflows": [coflow(1, weight=0)]},
     "coflows[0].weight must be a number from 1e-18 to 1e+18, not 0"),
    ({"coflows": [coflow(1), coflow(2), coflow(1)]},
     "coflows[2].id: 1 is the id of coflows[0] already"),
    ({"coflows": [coflow(1, starts_after=[2, 1, 3]), coflow(2)]},
     "coflows[0].starts_after[2]: no coflow has the id 3"),
    ({"coflows": [coflow(1, finishes_before=[8])]},
     "coflows[0].finishes_before[0]: no coflow has the id 8"),
    ({"coflows": [coflow(5), coflow(1, starts_after=[2]), coflow(2, starts_after=[1])]},
     "coflows[1]: job 1: dependency cycle among stages 1, 2"),
    ({"coflows": [coflow(1, job=1), coflow(2, job=3, starts_after=[1])]},
     "coflows[1].job: 3, but it is connected to coflows[0] of job 1"),
    ({"coflows": [coflow(6, job=1), coflow(1)]},
     "coflows[1].id: without a 'job' this is job 1, which other coflows name as theirs"),
]


def test_a_value_is_named_by_its_path(read) -> None:
    def is_named(given: tuple[object, str]) -> None:
        document, message = given
        assert refused(read, document) == [message]

    check_each(is_named, WRONG)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400])
def test_numbers_that_are_none(read, value: str) -> None:
    """JSON proper has no NaN, but Python's parser reads it, and rounds 1e999 to infinity."""
    text = json.dumps({"jobs": [job([{**FLOW, "bytes": "here"}])]}).replace('"here"', value)
    (message,) = refused(read, text)
    assert message.startswith(f"jobs[0].coflows[0][0].bytes must be {SIZE}, not ")
    assert len(message) < 130


def test_all_problems_are_found_and_the_first_is_raised(read, tmp_path: Path) -> None:
    bad = {"src": -1, "dst": 0.5, "bytes": None}
    document = {"jobs": [job([bad]), {"stages": [{"name": "a", "after": ["b"]}]}, 3]}
    with pytest.raises(TraceError) as caught:
        read(document)
    assert str(caught.value) == (f"{tmp_path / 'case.json'}:1: jobs[0].coflows[0][0].src must "
                                 "be a whole number from 0 to 99999, not -1 (and 4 more)")
    report = check_trace(tmp_path / "case.json")
    assert [message.split(" ")[0] for _, message in report.problems] == [
        "jobs[0].coflows[0][0].src", "jobs[0].coflows[0][0].dst", "jobs[0].coflows[0][0].bytes",
        "jobs[1]:", "jobs[2]"]


def test_problems_come_with_their_lines(tmp_path: Path) -> None:
    """Where a value is not there, the line is that of what it should be in."""
    path = tmp_path / "case.json"
    path.write_text("""\
{"hosts": 2,
 "name": "}{][, \\"jobs\\": [1]",
 "jobs": [
  {"coflows": [[{"src": 0, "dst": 1, "bytes": 5}]]},
  {"arrival_s": "later",
   "coflows": [[{"src": 0, "dst": 1, "bytes": 5}], [
     {"src": 0, "dst": 1,
      "bytes": -5},
     {"src": 0, "dst": 2, "bytes": 1},
     {"src": 0, "dst": 1}]],
   "compute_s": [1, "2", 3]}],
 "note": []}
""")
    assert [(line, message.split(" ")[0]) for line, message in check_trace(path).problems] == [
        (5, "jobs[1].arrival_s"), (8, "jobs[1].coflows[1][0].bytes"),
        (9, "jobs[1].coflows[1][1].dst"), (10, "jobs[1].coflows[1][2]:"),
        (11, "jobs[1].compute_s")]


KEYS = st.text(st.sampled_from('ab"\\\n:,{}é '), min_size=1, max_size=4)


@given(document=st.recursive(st.none(), lambda inner: st.lists(inner, max_size=4) | (
    st.dictionaries(KEYS, inner, max_size=4)), max_leaves=12), indent=st.sampled_from([None, 0, 1]))
def test_every_value_is_found_on_its_line(document: object, indent: int | None) -> None:
    """Leaves are made strings that stand once in the text, and look like structure."""
    paths: list[str] = []

    def numbered(value: object, path: str) -> object:
        if isinstance(value, list):
            return [numbered(each, f"{path}[{k}]") for k, each in enumerate(value)]
        if isinstance(value, dict):
            return {key: numbered(each, f"{path}.{key}" if path else key)
                    for key, each in value.items()}
        paths.append(path)
        return f"[{{{len(paths) - 1}}},\n"

    text = json.dumps(numbered(document, ""), indent=indent)
    lines = lines_of_values(text, set(paths))
    for number, path in enumerate(paths):
        before = text[:text.index(f"[{{{number}}}")]
        assert lines[path] == 1 + before.count("\n")


def test_a_bad_number_of_hosts_makes_no_other_problems(read) -> None:
    assert len(refused(read, {"hosts": "two", "jobs": [job([{**FLOW, "dst": 9}])]})) == 1


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | (
    st.sampled_from([0, 1, 2, 10**400, 1e300, float("nan")]))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["src", "dst", "bytes", "flows", "id", "name", "coflows", "x"]), inner,
    max_size=4), max_leaves=8)
SEEDS = (
    {"hosts": 3, "jobs": [job([FLOW, FLOW], [FLOW], compute_s=[1, 2], iterations=2, arrival_s=1),
                          {"stages": [{"name": "a", "flows": [FLOW], "compute_s": 1},
                                      {"name": "b", "after": ["a"], "finishes_before": ["a"]}]}]},
    {"coflows": [coflow(1, weight=2, arrival_s=1), coflow(2, starts_after=[1]),
                 coflow(3, finishes_before=[1], job=4)]},
)


def places(value: object) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a document."""
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        return [(value, key) for key in keys] + [p for key in keys for p in places(value[key])]
    return []


@st.composite
def damaged(draw: st.DrawFn) -> object:
    """Return a right document with some of its values replaced or left out."""
    document: Any = copy.deepcopy(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 3))):
        options = places(document)
        if options:
            container, key = options[draw(st.integers(0, len(options) - 1))]
            if draw(st.booleans()):
                container[key] = draw(VALUES)
            else:
                del container[key]
    return document


@given(document=damaged() | VALUES)
def test_any_json_gives_a_workload_or_a_netsim_error(
    document: object, tmp_path_factory, outcome
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "case.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    report = check_trace(path)
    found = outcome(path)
    assert bool(report.problems) != bool(report.facts)
    if isinstance(found, Workload):
        assert dict(report.facts)["jobs"] == len(found)
    else:
        assert found.problems == report.problems


@given(data=st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_give_a_netsim_error(data: bytes, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "case.json"
    path.write_bytes(data)
    with pytest.raises(NetsimError, match=r"case\.json"):
        read_workload(path)
