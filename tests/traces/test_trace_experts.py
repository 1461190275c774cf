"""Uneven loads of experts on jobs from traces, against the generator and by hand."""

import json
import re

import numpy as np
import pytest

import netsim
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.traces.training import write_chakra

from .chakra_files import coll, node, write
from .simai_files import AICB, layer, simai

MODEL = {"layers": 2, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32,
         "experts": 4, "top_k": 2, "moe_ffn": 64}


@pytest.mark.parametrize(("load", "batch"), [
    ({"zipf": 1.0}, 4), ({"dirichlet": 0.5}, 4), ({"file": "tokens.csv"}, 4),
    ({"file": "tokens.csv"}, 12)])
def test_the_trace_of_an_even_job_with_a_load_is_the_uneven_job(tmp_path, monkeypatch, load, batch):
    """Layer by layer, forward and backward: bytes of all pairs of ranks, seconds, and tokens.

    Draws of several micro-batches differ, unlike in the generator; layers of a file do not.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens.csv").write_text("layer,a,b,c,d\n0,9,1,2,3\n1,1,1,9,3\n2,3,1,3,8\n")
    load |= {"capacity_factor": 1.2}
    setup, model = {"ep": 2, "dp": 4, "global_batch": batch}, MODEL | {"layers": 3}
    uneven = netsim.llm_job(model, **setup, expert_load=load, seed=5)
    trace = write_chakra(netsim.llm_job(model, **setup), tmp_path / "g.et")[0]
    read = netsim.read_workload(trace, layout={"dp": 4, "ep": 2}, seed=5, expert_load=load | {
        "experts": 4, "top_k": 2, "token_bytes": 64 * 2})[0]

    def sent(job):
        made = getattr(job.operations, "whole", job.operations)
        return sorted((re.sub(r"#.*", "", made.name_of(k)), str(list(made.sendings[made.sends[k]]
                                                                     .flows)))
                      for k in np.flatnonzero(made.sends >= 0).tolist())

    assert sent(read) == sent(uneven)
    assert read.operations.tokens == uneven.operations.tokens
    assert read.operations.tokens[1] > 0
    runs = [netsim.simulate(netsim.big_switch(4, "1GB/s"), [job]) for job in (uneven, read)]
    assert runs[0].jobs["finish_s"][0] == pytest.approx(runs[1].jobs["finish_s"][0], rel=1e-6)


def test_backward_passes_mirror_forward_passes(tmp_path):
    """Four pairs of one rank pair: draws 0, 1 and then 1, 0, whose tokens count once."""
    options = load_of(tmp_path, experts=8, dirichlet=0.1)
    del options["expert_load"]["file"]
    made = netsim.read_workload(exchanges(tmp_path, count=8), **options)[0].operations
    sent = [str(list(each.flows)) for each in made.sendings if each.flows.src[0] == 0]
    assert sent[0] != sent[2]
    assert sent == [*sent[:4], *sent[2:4], *sent[:2]]
    assert made.tokens == (2 * 4 * 12, 0)
    other = netsim.read_workload(exchanges(tmp_path, count=8), seed=1, **options)[0].operations
    assert [str(list(each.flows)) for each in other.sendings if each.flows.src[0] == 0] != sent
    options["expert_load"]["seed"] = 0
    fixed = netsim.read_workload(exchanges(tmp_path, count=8), seed=1, **options)[0].operations
    assert [str(list(each.flows)) for each in fixed.sendings if each.flows.src[0] == 0] == sent


def exchanges(folder, count=2, size=1200):
    """Four ranks in two groups of experts: compute, to experts, compute there, and back."""
    groups = {"a": [0, 1], "b": [2, 3]}
    (folder / "g.json").write_text(json.dumps(groups))
    names = ["a", "a", "b", "b"]
    return write(folder, *[[node(0, "COMP", us=5), *(
        each for k in range(count) for each in (
            coll(2 * k + 1, [2 * k], 6, size, pg_name=name),
            node(2 * k + 2, "COMP", [2 * k + 1], us=8)))] for name in names])


def load_of(folder, **given):
    path = folder / "tokens.csv"
    path.write_text("layer,a,b\n0,3,1\n")
    return {"groups": "g.json", "layout": {"dp": 4, "ep": 2},
            "expert_load": {"file": str(path), "experts": 2, "token_bytes": 100} | given}


def test_tokens_of_a_trace_by_hand(tmp_path):
    """Of 12 tokens, 9 go to the first rank of a group, which computes 3/2 times as long."""
    path = exchanges(tmp_path)
    job = netsim.read_workload(path, **load_of(tmp_path))[0]
    made = job.operations
    flows = [list(each.flows) for each in made.sendings]
    assert [[(flow.src, flow.dst, flow.nbytes) for flow in each] for each in flows] == [
        [(0, 1, 300), (1, 0, 900)], [(0, 1, 900), (1, 0, 300)],
        [(2, 3, 300), (3, 2, 900)], [(2, 3, 900), (3, 2, 300)]]
    seconds = {name: made.compute_s[(made.rank == rank) & (made.compute_s > 0)].tolist()
               for rank, name in enumerate("abcd")}
    assert seconds["a"] == seconds["c"] == pytest.approx([5e-6, 12e-6, 8e-6])
    assert seconds["b"] == seconds["d"] == pytest.approx([5e-6, 4e-6, 8e-6])
    assert made.tokens == (48, 0)
    capped = netsim.read_workload(path, **load_of(tmp_path, capacity_factor=1))[0].operations
    assert capped.tokens == (48, 4 * 3)
    assert capped.sendings[0].flows.nbytes.tolist() == [300, 600]


def test_scaled_groups_have_the_load_of_all_their_ranks(tmp_path):
    path = exchanges(tmp_path)
    options = load_of(tmp_path, experts=8, zipf=1.5)
    del options["expert_load"]["file"]
    job = netsim.read_workload(path, scale={"dp": 2, "ep": 2}, **options)[0]
    assert job.ranks == 8
    for there, back in zip(job.operations.sendings[::2], job.operations.sendings[1::2],
                           strict=True):
        matrices = np.zeros((2, 8, 8))
        for matrix, sending in zip(matrices, (there, back), strict=True):
            matrix[sending.flows.src, sending.flows.dst] = sending.flows.nbytes
        assert (matrices[0] == matrices[1].T).all()
        assert matrices.sum() % 100 == 0
    assert job.operations.tokens == (8 * 12, 0)


@pytest.mark.parametrize(("given", "error", "message"), [
    ({"experts": 3}, InputError, "experts, 3, is not a multiple of the 2 ranks"),
    ({"experts": 4}, InputError, "has 2 experts, not 4"),
    ({"token_bytes": 70}, TraceError, "1200 bytes, which are not whole tokens of 70 bytes"),
    ({"zipf": 1}, InputError, "not zipf and file"), ({"top_k": 3}, InputError, "from 1 to 2"),
    ({"zip": 1}, UnknownNameError, "'zip'"), ({"per_iteration": True}, InputError, "iteration")])
def test_loads_that_are_refused(tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        netsim.read_workload(exchanges(tmp_path), **load_of(tmp_path, **given))


def test_what_a_load_needs(tmp_path):
    path, options = exchanges(tmp_path, count=3), load_of(tmp_path)
    with pytest.raises(TraceError, match="3 all-to-alls of the group of its experts; those"):
        netsim.read_workload(path, **options)
    with pytest.raises(InputError, match="expert_load needs layout"):
        netsim.read_workload(path, groups="g.json", expert_load=options["expert_load"])
    with pytest.raises(InputError, match="must be a table such as"):
        netsim.read_workload(path, **options | {"expert_load": 3})
    with pytest.raises(TraceError, match="no rank has an all-to-all of the group of its experts"):
        netsim.read_workload(exchanges(tmp_path, count=0), **options)
    wrong = write(tmp_path, *[[coll(1, [], 6, 1200, pg_name=name),
                               coll(2, [1], 6, 2400, pg_name=name)] for name in "aabb"])
    with pytest.raises(TraceError, match=r"node 1 .* 1200 bytes to experts, and .* back 2400"):
        netsim.read_workload(wrong, **options)


# --- SimAI ---------------------------------------------------------------------------------------


def simai_file(folder, names="abc", word="ALLTOALL_EP", size=1200, **given):
    """Computation of 1, 2 and 3 us in layers; to experts in the first, and back in the last."""
    path, steps = folder / "w.txt", {0: (word, size), len(names) - 1: (word, size)}
    path.write_text(simai([layer(name, *((1000 * (k + 1), *steps.get(k, ("NONE", 0)))
                                         for _ in range(2)), (1000 * (k + 1), "NONE", 0))
                           for k, name in enumerate(names)], **{"ep": 2, "gpus": 4} | given))
    return path


def simai_load(folder, **given):
    (folder / "tokens.csv").write_text("layer,a,b\n0,3,1\n")
    return {"file": str(folder / "tokens.csv"), "experts": 2, "token_bytes": 100} | given


@pytest.mark.parametrize(("names", "alike"), [("abc", ()), ("aaa", (0, 2))])
def test_tokens_of_simai_by_hand(tmp_path, names, alike):
    """Of 12 tokens, 9 go to the first rank of a group: forward, and back the way they came.

    It computes 3/2 times as long between the two, and in all layers of one name.
    """
    read = netsim.read_workload(simai_file(tmp_path, names), expert_load=simai_load(tmp_path))[0]
    made = read.operations.whole
    there, back = [(0, 1, 300), (1, 0, 900)], [(0, 1, 900), (1, 0, 300)]
    sent = {made.name_of(k): [tuple(flow) for flow in made.sendings[made.sends[k]].flows]
            for k in np.flatnonzero(made.sends >= 0).tolist()
            if made.sendings[made.sends[k]].flows.src[0] == 0}
    first, last = f"0.{names[0]}", f"2.{names[2]}"
    assert sent == {f"forward/{first}/ep all-to-all": there, f"forward/{last}/ep all-to-all": back,
                    f"inputs/{last}/ep all-to-all": there, f"inputs/{first}/ep all-to-all": back}
    seconds = {made.name_of(k).removesuffix("/compute"): made.compute_s[k] * 1e6
               for k in np.flatnonzero(made.rank == 0).tolist()}
    busy = {f"forward/{k}.{names[k]}" for k in (1, 2)} | {f"inputs/{k}.{names[k]}" for k in (0, 1)}
    busy |= {f"weights/{k}.{names[k]}" for k in (1, 2)}
    busy |= {f"{what}/{k}.{names[k]}" for what in ("forward", "inputs", "weights")
             for k in alike if (what, k) != ("inputs", 2)}
    assert seconds == pytest.approx({f"{what}/{k}.{name}": (k + 1) * (
        1.5 if f"{what}/{k}.{name}" in busy else 1) for what in ("forward", "inputs", "weights")
        for k, name in enumerate(names)})
    assert made.tokens == (48, 0)
    result = netsim.simulate(netsim.big_switch(4, "1GB/s"), [read])
    assert "simulated_ranks" not in result.summary()
    capped = netsim.read_workload(simai_file(tmp_path, names), expert_load=simai_load(
        tmp_path, capacity_factor=1))[0].operations
    assert capped.tokens == (48, 4 * 3)


def test_layers_of_simai_have_draws_also_if_computed_again_and_scaled(tmp_path):
    """Two pairs of layers; the first one runs again before the gradients of the last."""
    path = tmp_path / "w.txt"
    steps = [(0, "ALLTOALL_EP", 1200)] * 2 + [(0, "NONE", 0)]
    path.write_text(simai([layer(str(k), *steps) for k in range(4)], ep=2, gpus=4,
                          more="checkpoints: 1 0 checkpoint_initiates: 1 2"))
    load = {"zipf": 1.5, "experts": 8, "token_bytes": 100}
    made = netsim.read_workload(path, scale={"ep": 2, "dp": 2}, expert_load=load)[0].operations
    assert not made.identical
    between = {row.name.removesuffix("/ep all-to-all"): made.families[row.family].between
               for row in made.rows if row.family >= 0}
    assert (between["forward/0.0"] != between["forward/2.2"]).any()
    for one, other in (("forward/0.0", "again/0.0"), ("forward/1.1", "again/1.1"),
                       ("forward/0.0", "inputs/1.1"), ("forward/1.1", "inputs/0.0"),
                       ("forward/2.2", "inputs/3.3"), ("forward/3.3", "inputs/2.2")):
        assert (between[one] == between[other]).all()
    assert (between["forward/0.0"] == between["forward/1.1"].T).all()
    assert all(each.sum() == 4 * 1200 for each in between.values())
    assert made.tokens == (3 * 8 * 12, 0)
    drawn = [netsim.read_workload(path, seed=seed, expert_load=load)[0].operations.families[0]
             .between.tolist() for seed in range(3)]
    assert drawn[0] != drawn[1] or drawn[0] != drawn[2]


def test_an_even_load_of_simai_is_that_without_the_option(tmp_path):
    switch = netsim.big_switch(4, "1GB/s")
    runs = [netsim.simulate(switch, netsim.read_workload(simai_file(tmp_path), **more),
                            symmetry=False, record=["jobs", "coflows"])
            for more in ({}, {"expert_load": simai_load(tmp_path) | {"file": None, "zipf": 0}})]
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].coflows.equals(runs[1].coflows)


@pytest.mark.parametrize(("given", "more", "load", "error", "message"), [
    ({"word": "ALLTOALL"}, {}, {}, TraceError, r"there are no all-to-alls of experts"),
    ({"names": "a"}, {}, {}, TraceError, r"take turns.*forward: 1"),
    ({"ep": 1}, {}, {}, TraceError, "needs groups of experts, and ep is 1"),
    ({"size": 1250}, {}, {}, TraceError, r"layer 0 \(a\) sends 1250 bytes, which are not whole"),
    ({"policy": "MICRO"}, {"gpus": 4}, {}, TraceError, "and ep is 1"),
    ({}, {}, {"experts": 3}, InputError, "not a multiple of the 2 ranks"),
    ({}, {"simai": "analytical", "nvlink": 1e9, "nic": 1e9}, {}, InputError, "what is simulated"),
    ({}, {"pipeline": "formula", "nvlink": 1e9, "nic": 1e9}, {}, InputError, "what is simulated")])
def test_what_simai_does_not_tell_is_refused(tmp_path, given, more, load, error, message):
    with pytest.raises(error, match=message):
        netsim.read_workload(simai_file(tmp_path, **given), **more,
                             expert_load=simai_load(tmp_path, **load))


def test_formats_without_loads_say_which_have_them(tmp_path):
    path = tmp_path / "w.csv"
    path.write_text(AICB)
    with pytest.raises(InputError, match=r"SimAI \(.txt\), Chakra and Kineto, and the format llm"):
        netsim.read_workload(path, expert_load=simai_load(tmp_path))
