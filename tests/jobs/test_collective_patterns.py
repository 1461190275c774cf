"""Collectives as what jobs send: their stages, their options, and a rule that chooses."""

import numpy as np
import pytest

import netsim
from netsim.collectives import NcclCosts
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns import make_pattern
from netsim.testing import check_pattern
from netsim.workload.job import JobSpec

GB = 1e9


def stages(pattern, ranks, nbytes=12.0):
    return make_pattern(pattern).stages(ranks, nbytes, np.random.default_rng(7))


def jct(pattern, ranks, nbytes=GB, rate="8Gbps"):
    """Return the time of a job on a switch whose ports carry 1 GB/s."""
    job = JobSpec(0, pattern=pattern, ranks=ranks, nbytes=nbytes, hosts=range(ranks))
    result = netsim.simulate(netsim.big_switch(ranks, rate), [job], allocator="maxmin")
    return float(result.jobs["jct_s"].iloc[0])


@pytest.mark.parametrize(("pattern", "ranks", "seconds"), [
    ("all-reduce", 4, 2 * 3 / 4),                                    # 2 (n-1) S/n
    ({"name": "all-reduce", "algorithm": "direct"}, 4, 2 * 3 / 4),
    ({"name": "all-reduce", "algorithm": "halving-doubling"}, 5, 2 * 3 / 4 + 2),
    ({"name": "all-reduce", "algorithm": "tree"}, 8, 4 * 3 - 2),     # (4d - 2) S
    ({"name": "all-reduce", "algorithm": "double-tree"}, 8, 5),      # (2d - 1) S
    ({"name": "all-reduce", "algorithm": "hierarchical", "group": 4}, 8, 2 * 3 / 4 + 2 / 8),
    ("all-gather", 4, 3 / 4),
    ({"name": "reduce-scatter", "algorithm": "recursive"}, 4, 3 / 4),
    ({"name": "broadcast", "chunks": 10, "root": 2}, 4, 12 / 10),    # (n - 2 + k) S/k
    ({"name": "reduce", "algorithm": "tree"}, 8, 5),                 # (2 (d + k) - 3) S/k
    ({"name": "all-to-all", "algorithm": "pairwise"}, 4, 3 / 4),
    ("send-recv", 4, 1),
    ("barrier", 4, 0),
])
@pytest.mark.parametrize("form", ["steps", "messages"])
def test_closed_forms(pattern, ranks, seconds, form):
    """As messages, trees and folds differ: a rank may go on before others have ended a step."""
    options = pattern if isinstance(pattern, dict) else {"name": pattern}
    found = jct(options | {"form": form}, ranks)
    differs = "tree" in options.get("algorithm", "") or ranks == 5
    if form == "steps" or not differs:
        assert found == pytest.approx(seconds, rel=1e-9)
    else:
        assert 0.3 * seconds < found < 1.5 * seconds


@pytest.mark.parametrize("options", [
    {}, {"algorithm": "direct"}, {"algorithm": "halving-doubling"},
    {"algorithm": "hierarchical", "group": 3}, {"order": [3, 1, 5, 0, 2, 4]}])
def test_aggregated_equals_steps(options):
    """With equal parts; and the bytes are the same in all forms."""
    steps, whole = ({"name": "all-reduce", "form": form} | options
                    for form in ("steps", "aggregate"))
    assert jct(steps, 6) == pytest.approx(jct(whole, 6), rel=1e-9)
    sent = [sum(stage.flows.nbytes.sum() for stage in stages(each, 6)) for each in (steps, whole)]
    assert sent[0] == pytest.approx(sent[1], rel=1e-12)


def test_the_ring_is_as_it_was():
    """Bit by bit: 2m(w-1)/w over each edge in one coflow, m/w in each of 2(w-1) steps."""
    for ranks, nbytes in ((3, 0.1), (7, 1e9 / 3), (10, 12.345)):
        (whole,) = stages("ring-all-reduce", ranks, nbytes)
        assert whole.name == "all-reduce"
        assert whole.flows.nbytes.tolist() == [nbytes * (2 * (ranks - 1)) / ranks] * ranks
        steps = stages("ring-all-reduce:stepwise=true", ranks, nbytes)
        assert [step.name for step in steps] == [f"step-{k}" for k in range(2 * (ranks - 1))]
        for step in (whole, *steps):
            assert step.flows.src.tolist() == list(range(ranks))
            assert step.flows.dst.tolist() == [*range(1, ranks), 0]
        assert {size for step in steps for size in step.flows.nbytes.tolist()} == {nbytes / ranks}
        assert len({id(step.flows) for step in steps}) == 1


def test_names_and_waits():
    phases = stages({"name": "all-reduce", "algorithm": "hierarchical", "group": 2,
                     "form": "aggregate"}, 4)
    assert [(stage.name, stage.after) for stage in phases] == [
        ("phase-0", ()), ("phase-1", ("phase-0",)), ("phase-2", ("phase-1",))]
    assert [[times for _, times in stage.steps] for stage in phases] == [[1], [1, 1], [1]]
    first, *_, last = stages({"name": "all-gather", "form": "messages"}, 3)
    assert (first.name, first.after, last.name) == ("message-0", (), "message-5")
    assert last.after == ("message-1", "message-2")  # its piece, and its edge before
    assert [stage.name for stage in stages("send-recv", 3)] == ["send-recv"]


def test_whole_elements():
    """10 elements of 4 bytes for 4 ranks: parts of 12, 12, 8 and 8 bytes."""
    (stage,) = stages({"name": "all-gather", "algorithm": "direct", "unit": "4B"}, 4, 40.0)
    assert stage.flows.nbytes.tolist() == [12.0] * 6 + [8.0] * 6


def test_a_matrix_of_bytes():
    """Its diagonal stays, and the bytes of the job have no meaning."""
    given = {"name": "all-to-all", "matrix": [[5, "1kB", 0], [2, 7, 3], [4, 0, 9]]}
    (stage,) = stages(given, 3)
    assert [tuple(flow) for flow in stage.flows] == [
        (0, 1, 1000.0), (0, 2, 0.0), (1, 0, 2.0), (1, 2, 3.0), (2, 0, 4.0), (2, 1, 0.0)]
    assert len(stages(given | {"algorithm": "pairwise"}, 3)) == 2


@pytest.mark.parametrize("pattern", [
    {"name": "all-reduce", "unit": 1, "algorithm": "tree", "chunks": 3},
    {"name": "all-reduce", "algorithm": "auto", "costs": {"rate": "50GB/s"}},
    {"name": "all-reduce", "algorithm": "fastest", "costs": {"rate": 1e9, "latency": "2us"}},
    {"name": "all-reduce", "form": "messages", "algorithm": "double-tree", "chunks": 2},
    {"name": "broadcast", "form": "aggregate", "algorithm": "tree"},
    {"name": "all-to-all", "matrix": [[0, 1], [2, 0]]},
])
def test_options_keep_the_rules_of_patterns(pattern):
    check_pattern(pattern, nbytes=2.0**20)


def test_a_rule_chooses_by_the_bytes():
    """A tree for few bytes on many servers, a ring for many; stages are numbered accordingly."""
    costs = {"rate": "50GB/s", "servers": 8}
    pattern = {"name": "all-reduce", "algorithm": "auto", "costs": costs}
    made = make_pattern(pattern)
    assert [made.choice(64, size).algorithm for size in (1e4, 1e10)] == ["double-tree", "ring"]
    jobs = [JobSpec(k, pattern=pattern, ranks=8, nbytes=size, hosts=range(8))
            for k, size in enumerate((1e3, 1e10))]
    assert len(stages(pattern, 8, 1e3)) != len(stages(pattern, 8, 1e10))
    result = netsim.simulate(netsim.big_switch(8, "400Gbps"), jobs, allocator="maxmin")
    assert result.coflows["coflow"].is_unique
    assert make_pattern({"name": "all-reduce", "algorithm": "auto",
                         "costs": NcclCosts(1e9)}).costs.servers == 1


@pytest.mark.parametrize(("pattern", "error", "message"), [
    ({"name": "all-reduce", "algorithm": "rign"}, UnknownNameError, "did you mean 'ring'"),
    ({"name": "all-reduce", "form": "step"}, UnknownNameError, "did you mean 'steps'"),
    ({"name": "all-reduce", "chunks": 2}, InputError, "all-reduce by ring takes no chunks"),
    ({"name": "all-reduce", "unit": 0}, InputError, "all-reduce: unit must be greater than 0"),
    ({"name": "all-reduce", "algorithm": "auto", "costs": 5}, InputError, "by auto: costs must be"),
    ({"name": "all-reduce", "algorithm": "fastest", "costs": {"rate": 1, "servers": 2}},
     UnknownNameError, "by fastest: costs.*servers"),
    ({"name": "all-reduce", "costs": {"rate": 1}}, InputError, "by ring takes no costs"),
    ({"name": "all-to-all", "matrix": [[1, 2], [3]]}, InputError, "row 1 has 1 entries"),
    ({"name": "all-to-all", "matrix": [[1, -2], [3, 0]]}, InputError, "row 0, column 1 .* not -2"),
    ({"name": "all-to-all", "matrix": 3}, InputError, "matrix must be a list of rows"),
    ({"name": "all-to-all", "sizes": "uniform", "algorithm": "pairwise"}, InputError, "uniform"),
])
def test_refused(pattern, error, message):
    with pytest.raises(error, match=message):
        make_pattern(pattern)


@pytest.mark.parametrize(("pattern", "ranks", "message"), [
    ({"name": "all-reduce", "algorithm": "hierarchical", "group": 4}, 6, "job 3: .* groups of 4"),
    ({"name": "broadcast", "root": 6}, 6, "job 3: .* root must be .* from 0 to 5, not 6"),
    ({"name": "all-reduce", "unit": 7}, 6, "job 3: unit must divide"),
    ({"name": "all-to-all", "matrix": [[0, 1], [1, 0]]}, 6, "job 3: .* 6 ranks, not 2"),
    ({"name": "all-reduce", "form": "messages"}, 2000, "job 3: 2,000 ranks .* 7,996,000 messages"),
    ({"name": "all-reduce", "algorithm": "direct"}, 9999, "job 3: 9,999 ranks .* at most"),
])
def test_refused_for_some_ranks(pattern, ranks, message):
    """The error names the job."""
    job = JobSpec(3, pattern=pattern, ranks=ranks, nbytes=1e6)
    with pytest.raises(InputError, match=message):
        netsim.simulate(netsim.big_switch(ranks, "1Gbps"), [job])
