"""Uneven loads of experts on jobs from traces, against the generator and by hand."""

import json

import numpy as np
import pytest

import netsim
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.traces.training import write_chakra

from .chakra_files import coll, node, write

MODEL = {"layers": 2, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32,
         "experts": 4, "top_k": 2, "moe_ffn": 64}


def test_the_trace_of_an_even_job_with_a_load_is_the_uneven_job(tmp_path):
    """If all layers have one load: bytes of all pairs of ranks, seconds, and tokens."""
    path = tmp_path / "tokens.csv"
    path.write_text("layer,a,b,c,d\n0,9,1,2,3\n1,9,1,2,3\n")
    load = {"file": str(path), "capacity_factor": 1.2}
    setup = {"ep": 2, "dp": 4, "global_batch": 4}
    uneven = netsim.llm_job(MODEL, **setup, expert_load=load)
    trace = write_chakra(netsim.llm_job(MODEL, **setup), tmp_path / "g.et")[0]
    read = netsim.read_workload(trace, layout={"dp": 4, "ep": 2}, expert_load=load | {
        "experts": 4, "top_k": 2, "token_bytes": 64 * 2})[0]

    def sent(job):
        made = getattr(job.operations, "whole", job.operations)
        return sorted(str(list(made.sendings[k].flows)) for k in made.sends[made.sends >= 0])

    assert sent(read) == sent(uneven)
    runs = [netsim.simulate(netsim.big_switch(4, "1GB/s"), [job]) for job in (uneven, read)]
    assert runs[0].jobs["finish_s"][0] == pytest.approx(runs[1].jobs["finish_s"][0], rel=1e-6)
    # The generator counts tokens once, a trace also on the way of their gradients.
    dropped = [run.summary()["dropped_tokens"] for run in runs]
    assert dropped[1] == 2 * dropped[0] > 0


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
