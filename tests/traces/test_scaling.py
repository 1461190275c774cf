"""Traces of a few ranks as those of many."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.traces.training import RankNode, RankTrace, join, write_chakra
from netsim.traces.training.scaling import Layout, Scaling, join_alike
from tests.examples import examples

from .chakra_files import coll, node, write
from .simai_files import layer, simai
from .test_kineto import collective, step
from .test_kineto import write as write_profile

RECORD = ["jobs", "coflows", "computations"]
MODEL = {"layers": 4, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32}
EXPERTS = MODEL | {"experts": 4, "top_k": 2, "moe_ffn": 128}


def run(jobs, ranks):
    return netsim.simulate(netsim.big_switch(ranks, 1e9), jobs, record=RECORD)


def rows_of(jobs, ranks):
    """All computations and coflows of a run, which ends when the jobs do."""
    result = run(jobs, ranks)
    columns = {"computations": ["rank", "stage", "start_s", "finish_s"],
               "coflows": ["stage", "start_s", "finish_s", "bytes"]}
    return [sorted(map(tuple, getattr(result, name)[listed].astype({"stage": str}).to_numpy()))
            for name, listed in columns.items()]


def sent(job):
    """What is sent, by how many operations."""
    made = getattr(job.operations, "whole", job.operations)
    listed = [made.sendings[k].communication for k in made.sends[made.sends >= 0]]
    return sorted(listed)


# --- the generator ------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "setup"), [
    (MODEL, {}), (MODEL, {"tp": 2, "pp": 2}), (MODEL, {"cp": 2, "zero": 1}),
    (MODEL, {"tp": 2, "pp": 2, "zero": 1, "sequence_parallel": True}),
    (EXPERTS, {"tp": 2, "ep": 2, "dp": 4, "sequence_parallel": True})])
def test_the_generator_scaled_is_the_generator(tmp_path, model, setup):
    """Groups, bytes and times of 8 times the replicas, with the same batch for each: to the bit."""
    dp = setup.get("dp", 2)
    few, many = (netsim.llm_job(model, **(setup | {"dp": count}), global_batch=4 * count)
                 for count in (dp, 8 * dp))
    path = write_chakra(few, tmp_path / "g.et")[0]
    layout = {name: setup[name] for name in ("tp", "cp", "ep", "pp") if name in setup} | {"dp": dp}
    grown = netsim.read_workload(path, layout=layout, scale={"dp": 8})
    assert grown.name == f"g, {few.ranks} of {many.ranks} ranks traced, the others copies"
    assert sent(grown[0]) == sent(many)
    assert rows_of(grown, many.ranks) == rows_of([many], many.ranks)


def test_ranks_without_a_file_are_copies_of_those_that_do_the_same(tmp_path):
    """Of tp = 2, dp = 4, pp = 2, replica 2 is traced: ranks 4, 5 and 12, 13."""
    job = netsim.llm_job(MODEL, tp=2, dp=4, pp=2, global_batch=8)
    files = write_chakra(job, tmp_path / "g.et")
    layout = {"tp": 2, "dp": 4, "pp": 2}
    for rank, path in enumerate(files):
        if rank not in (4, 5, 12, 13):
            path.unlink()
    copied = netsim.read_workload(files[4], layout=layout)
    assert rows_of(copied, 16) == rows_of([job], 16)
    files[13].unlink()
    with pytest.raises(TraceError, match="in a layout of tp = 2, cp = 1, ep = 1, dp = 4, pp = 2, "
                                         "rank 9 has no trace, and none of those that do the same: "
                                         "11, 13, 15"):
        netsim.read_workload(files[4], layout=layout)


# --- by hand ------------------------------------------------------------------------------------


def collectives(folder, ranks, kind, size, prefix="t"):
    return write(folder, *[[coll(0, comm_type=kind, comm_size=size)]] * ranks, prefix=prefix)


@pytest.mark.parametrize("kind", range(10))
def test_a_collective_of_4_ranks_is_one_of_8_or_16(tmp_path, kind):
    """With the input kept, and, but for gathers, with the larger buffer kept, too."""
    few = collectives(tmp_path, 4, kind, 2**20)
    for factor in (2, 4):
        ranks = 4 * factor
        whole = sent(netsim.read_workload(collectives(tmp_path, ranks, kind, 2**20, "w"))[0])
        for keep in ("input", "buffer"):
            grown = netsim.read_workload(few, layout={"dp": 4}, scale={"dp": factor}, keep=keep)
            assert (sent(grown[0]) == whole) == (keep == "input" or kind not in (2, 3))
            if kind in (2, 3) and keep == "buffer":
                assert sent(grown[0])[0].payload == 4 * 2**20


def test_buffers_that_do_not_divide_are_padded(tmp_path):
    """A gathered buffer of 4 x 11 bytes among 12 ranks: 4 of each, 48."""
    path = collectives(tmp_path, 4, 2, 11)
    grown = netsim.read_workload(path, layout={"dp": 4}, scale={"dp": 3})
    assert sent(grown[0])[0].payload == 48


def experts(folder, dp, ep):
    """Two ranks of experts next to each other, among dp; both kinds of gradients, in one file."""
    groups = {"dp": [*range(dp)]}
    of_rank = []
    for rank in range(dp):
        block, own = f"ep{rank // ep}", f"edp{rank % ep}"
        groups.setdefault(block, []).append(rank)
        groups.setdefault(own, []).append(rank)
        of_rank.append([node(0, "COMP", us=3), coll(1, [0], 6, 4000, pg_name=block),
                        coll(2, [1], 0, 8000, pg_name=own), coll(3, [1], 0, 2000, pg_name="dp")])
    (folder / "g.json").write_text(json.dumps(groups))
    return write(folder, *of_rank)


@pytest.mark.parametrize(("scale", "dp", "ep"), [
    ({"dp": 2}, 8, 2), ({"ep": 2}, 4, 4), ({"dp": 2, "ep": 2}, 8, 4), ({"dp": 4, "ep": 2}, 16, 4)])
def test_groups_of_experts_grow(tmp_path, scale, dp, ep):
    """As a trace of so many ranks has them: all-to-alls stay as large, and go to more."""
    path = experts(tmp_path, 4, 2)
    options = {"groups": "g.json", "layout": {"dp": 4, "ep": 2}}
    grown = netsim.read_workload(path, scale=scale, **options)
    (tmp_path / "more").mkdir()
    more = netsim.read_workload(experts(tmp_path / "more", dp, ep), groups="g.json")
    nameless = [[each._replace(group="") for each in sent(jobs[0])] for jobs in (grown, more)]
    assert sorted(nameless[0]) == sorted(nameless[1])
    assert run(grown, dp).jobs["finish_s"][0] == run(more, dp).jobs["finish_s"][0]


#: The kinds of groups that programs of ranks may use, by the ranks of each.
KINDS = {"tp": lambda layout, t, j, stage: [(other, j, stage) for other in range(layout.tp)],
         "pp": lambda layout, t, j, stage: [(t, j, other) for other in range(layout.pp)],
         "all": lambda layout, t, j, stage: [layout.place(rank) for rank in range(layout.ranks)],
         **{kind: lambda layout, t, j, stage, kind=kind: [
             (t, other, stage) for other in layout.groups_of(j)[kind]]
            for kind in ("dp", "cp", "dp-cp", "ep", "edp")}}


def programs(layout, steps):
    """What each rank of a layout does: a step after the other, of which each replica has a part."""
    for rank in range(layout.ranks):
        place = layout.place(rank)
        nodes = [RankNode(0, "begin", "compute", seconds=1e-6 * (1 + place[2]))]
        for k, (what, kind, nbytes) in enumerate(steps, 1):
            members = tuple(sorted(layout.rank(*each) for each in KINDS[kind](layout, *place)))
            nodes.append(RankNode(k, f"s{k}", "collective", (k - 1,), collective=what,
                                  members=members, payload=nbytes, group=kind, label=kind))
        yield RankTrace.of(rank, Path("t.et"), nodes)


@given(st.data())
def test_any_program_of_all_ranks_scaled_is_that_of_more(data):
    """Whatever groups it uses, and whichever replicas are traced, if there is one of each class.

    Buffers can be divided by all numbers of ranks. Groups that could grow in two ways are refused.
    """
    size = st.integers(1, 2)
    tp, cp, pp = (data.draw(size) for _ in range(3))
    layout = Layout(tp, cp, data.draw(st.sampled_from([1, 2, 4])),
                    data.draw(st.sampled_from([2, 4, 8])), pp)
    scale = {"dp": data.draw(st.integers(1, 3)), "ep": data.draw(size)}
    steps = data.draw(st.lists(st.tuples(
        st.sampled_from(["all-reduce", "all-gather", "all-to-all", "barrier"]),
        st.sampled_from(sorted(KINDS)), st.just(5040 * 64)), max_size=5))
    try:
        scaling = Scaling(layout._asdict(), scale)
    except InputError:
        assume(False)
    traces = list(programs(layout, steps))
    period = math.lcm(layout.cp, layout.ep)
    kept = data.draw(st.integers(0, layout.replicas // period - 1))
    some = [trace for trace in traces if layout.place(trace.rank)[1] // period == kept]
    try:
        grown = list(scaling.complete(data.draw(st.sampled_from([traces, some]))))
    except TraceError as error:
        assert "not of one kind" in str(error)  # noqa: PT017
        assume(False)
    whole = list(programs(scaling.grown, steps))
    assert [[(node.name, node.kind, node.after, node.seconds, node.collective, node.members,
              node.payload) for node in trace.nodes] for trace in grown] == [
           [(node.name, node.kind, node.after, node.seconds, node.collective, node.members,
             node.payload) for node in trace.nodes] for trace in whole]
    sizes = [join(ranks).sendings for ranks in (grown, whole)]
    assert {each.communication for each in sizes[0]} == {each.communication for each in sizes[1]}


def test_profiles_are_scaled_too(tmp_path):
    """Rank 0 of two, to 8: 50 us, then 2 x 7/8 of 4 kB at 1 GB/s."""
    path = write_profile(tmp_path, step(0))
    grown = netsim.read_workload(path, format="kineto", layout={"dp": 2}, scale={"dp": 4})
    result = run(grown, 8)
    assert result.jobs["finish_s"][0] * 1e6 == pytest.approx(50 + 7)
    two = [[*step(0, args=collective(ranks=ranks, group="1"))] for ranks in ((0, 1), (2, 3))]
    for rank in (0, 1):
        path = write_profile(tmp_path, two[0], rank, 4)
    grown = netsim.read_workload(path, format="kineto", layout={"tp": 2, "dp": 2},
                                 others=["rank0.json"])
    assert {each.members for each in sent(grown[0])} == {(0, 1), (2, 3)}
    with pytest.raises(TraceError, match=r"is of a job of 4 ranks, but a layout .* has 2"):
        netsim.read_workload(path, format="kineto", layout={"dp": 2})
    with pytest.raises(InputError, match="copies and layout do not go together"):
        netsim.read_workload(path, format="kineto", layout={"tp": 2, "dp": 2}, copies=True)


def test_inputs_of_simai_are_kept_if_asked_for(tmp_path):
    """An all-gather in data parallel groups of 2, 1 MB of each, in groups of 8."""
    path = tmp_path / "w.txt"
    path.write_text(simai([layer("a", (0, "ALLGATHER", 9), (0, "NONE", 0),
                                 (0, "ALLGATHER", 2 * 10**6))], tp=2, gpus=4))
    payloads = [[each.payload for each in netsim.read_workload(
        path, scale={"dp": 4}, keep=keep)[0].operations.families] for keep in ("buffer", "input")]
    assert payloads == [[9, 2 * 10**6], [9, 8 * 10**6]]


# --- what a trace cannot tell ---------------------------------------------------------------------


@pytest.mark.parametrize(("options", "said"), [
    ({"scale": {"dp": 2}}, "scale needs layout"),
    ({"layout": {"dp": 4}, "scale": {"tp": 2}}, "tp cannot grow: layers per stage, the time of"),
    ({"layout": {"dp": 4}, "scale": {"pp": 2}}, "pp cannot grow"),
    ({"layout": {"dp": 4}, "scale": {"dp": 0}}, "scale: dp"),
    ({"layout": {"dp": 4}, "scale": 2}, "scale must be a table"),
    ({"layout": [4]}, "layout must be a table"), ({"layout": {"dp": "4"}}, "layout: dp"),
    ({"layout": {"tp": 4}, "scale": {"dp": 2}}, "groups of dp have one rank in the trace, which "
                                                "thus does not tell what 2 would send"),
    ({"layout": {"dp": 4}, "scale": {"ep": 2}}, "groups of ep have one rank"),
    ({"layout": {"dp": 4, "ep": 4}, "scale": {"dp": 2}}, "groups of edp have one rank"),
    ({"layout": {"dp": 4, "ep": 3}}, "ep = 3 does not divide dp x cp = 4"),
    ({"layout": {"dp": 4, "ep": 2}, "scale": {"ep": 4}}, "ep = 8 does not divide dp x cp = 4"),
    ({"layout": {"dp": 4}, "scale": {"dp": 10**6}}, "above the limit of 200,000 ranks")])
def test_options_are_checked(tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        netsim.read_workload(collectives(tmp_path, 4, 0, 8), **options)


@pytest.mark.parametrize("options", [{"layout": {"x": 2}}, {"layout": {"dp": 4}, "keep": "x"},
                                     {"layout": {"dp": 4}, "scale": {"cp": 2}}])
def test_unknown_names_are_refused(tmp_path, options):
    with pytest.raises(UnknownNameError):
        netsim.read_workload(collectives(tmp_path, 4, 0, 8), **options)


def test_groups_that_are_not_of_the_layout_are_listed(tmp_path):
    groups = {"a": [0, 3], "b": [1, 2], "c": [0, 1], "d": [3, 2]}
    (tmp_path / "g.json").write_text(json.dumps(groups))
    path = write(tmp_path, *([coll(0, pg_name="a" if rank in (0, 3) else "b"),
                              coll(1, pg_name="c" if rank < 2 else "d")] for rank in range(4)))
    with pytest.raises(TraceError, match=r"groups that are not of one kind in a layout of tp = 2, "
                       r".* ascending order: 'a' of ranks 0, 3; 'b' of ranks 1, 2; 'd' of ranks 3"):
        netsim.read_workload(path, groups="g.json", layout={"tp": 2, "dp": 2})


def test_a_group_that_could_grow_in_two_ways_is_refused(tmp_path):
    """With cp = ep = 2, ranks 0 and 1 share a sequence, and all experts."""
    (tmp_path / "g.json").write_text('{"a": [0, 1], "b": [2, 3]}')
    path = write(tmp_path, *([coll(0, pg_name="ab"[rank // 2])] for rank in range(4)))
    layout = {"cp": 2, "ep": 2, "dp": 2}
    assert netsim.read_workload(path, groups="g.json", layout=layout, scale={"dp": 2})[0].ranks == 8
    with pytest.raises(TraceError, match="'a' of ranks 0, 1; 'b' of ranks 2, 3"):
        netsim.read_workload(path, groups="g.json", layout=layout, scale={"dp": 2, "ep": 2})


def test_messages_between_replicas_are_refused(tmp_path):
    path = write(tmp_path, [node(0, "SEND", comm_dst=1, comm_size=5)],
                 [node(0, "RECV", comm_src=0, comm_size=5)])
    with pytest.raises(TraceError, match=r"rank 0: node 0 .* is a message from rank 0 to 1, of"):
        netsim.read_workload(path, layout={"dp": 2})
    assert netsim.read_workload(path, layout={"pp": 2})[0].ranks == 2


def test_files_of_more_ranks_than_the_layout_has_are_refused(tmp_path):
    with pytest.raises(TraceError, match=r"a file of rank 3, and a layout .* has 2 ranks"):
        netsim.read_workload(collectives(tmp_path, 4, 0, 8), layout={"dp": 2})


def test_jobs_too_large_for_this_are_refused(tmp_path):
    nodes = [node(k, "COMP", us=1) for k in range(1001)]
    path = write(tmp_path, nodes, nodes)
    with pytest.raises(TraceError, match=r"20,000 ranks, .*: 4,000,997 is above the limit of "):
        netsim.read_workload(path, layout={"dp": 2}, scale={"dp": 10_000})


def test_places_of_ranks_are_their_numbers():
    layout = Layout(tp=2, cp=2, ep=4, dp=4, pp=3)
    assert [layout.rank(*layout.place(rank)) for rank in range(layout.ranks)] == [*range(48)]


# --- ranks that do the same -------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(20))
@given(st.builds(Layout, tp=st.sampled_from([1, 2, 4]), ep=st.sampled_from([1, 2]),
                 cp=st.just(1), dp=st.sampled_from([2, 4]), pp=st.sampled_from([1, 2])),
       st.lists(st.tuples(st.sampled_from(["tp", "dp", "ep", "dp-ep", "all"]),
                          st.sampled_from(["all-reduce", "all-to-all", "reduce-scatter"]),
                          st.integers(0, 3), st.sampled_from([1.0, 0.5])), min_size=1, max_size=6))
def test_ranks_that_do_the_same_are_joined_as_the_traces_of_all(layout, steps):
    """`join_alike` of rank 0's trace is what `join` makes of one trace per rank: to the bit."""
    def trace(rank):
        nodes = [RankNode(0, "begin", "compute", seconds=0.25, stream="compute")]
        for k, (group, kind, mb, factor) in enumerate(steps, start=1):
            members = layout.members(group, rank)
            if len(members) == 1 or not mb:
                kind = "barrier"
            nodes.append(RankNode(
                k, f"{k}", "collective", (k - 1,), collective=kind, members=members,
                payload=mb * 96_000, group=group, label=group, factor=factor,
                seconds=0.125 if kind == "barrier" else 0.0))
        return nodes

    end = RankNode(len(steps) + 1, "end", "point", (len(steps),), stream="end")
    all_ranks = join([RankTrace(rank, Path("w"), tuple(trace(rank)))
                      for rank in range(layout.ranks)])
    alike = join_alike(RankTrace(0, Path("w"), (*trace(0), end)), layout, layout.ranks)
    one, other = ([netsim.JobSpec(0, operations=made, hosts=range(layout.ranks))]
                  for made in (all_ranks, alike))
    assert rows_of(one, layout.ranks) == rows_of(other, layout.ranks)


@pytest.mark.parametrize(("change", "problem"), [
    ({"factor": 2.0}, r"all-reduce of 8 x 2 bytes; on rank 0 it is .*: all-reduce of 8 bytes"),
    ({"seconds": 3.0}, r"all-reduce of 8 bytes, 3 s after they have met; on rank 0 it is ")])
def test_ranks_must_mean_the_same_by_a_collective(change, problem):
    given = {"collective": "all-reduce", "members": (0, 1), "payload": 8, "group": "g"}
    nodes = [RankNode(0, "a", "collective", **given | more) for more in ({}, change)]
    with pytest.raises(TraceError, match=problem):
        join([RankTrace(rank, Path("w"), (each,)) for rank, each in enumerate(nodes)])


def test_there_must_be_traces():
    with pytest.raises(TraceError, match="there are no nodes"):
        join([])
