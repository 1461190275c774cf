"""The generator of LLM training against closed forms, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.longest_path import longest_path
from netsim.llm import LLMS, TrainingSetup, Transformer, llm_operations, make_transformer
from netsim.llm.rank_program import rank_program
from tests.examples import examples

TINY = {"layers": 8, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32}
MOE = {**TINY, "experts": 8, "top_k": 2, "moe_ffn": 64}


def setup_of(model=TINY, **given):
    return TrainingSetup(model=Transformer(**model), **given)


def sent(setup, group, stage=0):
    """Payload that a rank sends in an iteration by the kind of collective, in one kind of group."""
    found = {}
    for step in rank_program(setup, stage):
        if step.group == group:
            found[step.kind] = found.get(step.kind, 0) + step.payload
    return found


def computed(setup):
    """When the last forward or backward computation ends if communication takes no time."""
    made = llm_operations(setup)
    ends, = longest_path(made, made.compute_s, 1)
    return ends[made.rank >= 0].max()


# --- closed forms ------------------------------------------------------------------------------


@pytest.mark.parametrize(("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
@pytest.mark.parametrize(("stages", "batches"), [(2, 4), (4, 8)])
def test_the_bubble_of_pipelines(schedule, chunks, stages, batches):
    """M + (p-1)/v passes of f + b = 3 (8/p) s each: a bubble of (p-1)/(v m + p - 1)."""
    setup = setup_of(pp=stages, vpp=chunks, global_batch=batches, schedule=schedule,
                     forward_s=(0.25, 0.75, 0))
    ideal = batches * 3 * 8 / stages
    assert computed(setup) == pytest.approx(ideal * (1 + (stages - 1) / (chunks * batches)))
    assert 1 - ideal / computed(setup) == pytest.approx(
        (stages - 1) / (chunks * batches + stages - 1))


def test_bytes_of_tensor_parallelism():
    """Per layer and micro-batch 4 all-reduces of A = b s h 2, and those of embedding and head."""
    setup = setup_of(tp=4, global_batch=3)
    a = 32 * 64 * 2
    assert sent(setup, "tp") == {"all-reduce": 3 * ((4 * 8 + 2) * a + 3 * 4 * 32)}


def test_sequence_parallelism_sends_the_same_forward():
    """Of a layer: forward 2 all-gathers and 2 reduce-scatters, backward 4 and 2, of A each."""
    a = 32 * 64 * 2
    setup = setup_of(tp=4, sequence_parallel=True)
    found = sent(setup, "tp")
    # Embedding: RS, AG back; head: AG, and again and RS back.
    assert found["all-gather"] == (6 * 8 + 3) * a
    assert found["reduce-scatter"] == (4 * 8 + 2) * a


@pytest.mark.parametrize("interleaved", [False, True])
def test_bytes_of_pipelines(interleaved):
    """M passes of A each way over each of p - 1 boundaries, of v p - 1 with v chunks."""
    given = {"vpp": 2, "schedule": "interleaved"} if interleaved else {}
    setup = setup_of(pp=4, global_batch=8, **given)
    total = sum(sum(sent(setup, "pp", stage).values()) for stage in range(4))
    assert total == 2 * 8 * (setup.virtual_stages - 1) * 32 * 64 * 2


@pytest.mark.parametrize(("zero", "reduced", "gathered"), [(0, 1, 0), (1, 1, 1), (2, 4, 1),
                                                           (3, 4, 8)])
def test_bytes_of_data_parallelism(zero, reduced, gathered):
    """N gradients once (m = 4 times with ZeRO 2, 3); N parameters once, or 2 m times (ZeRO 3)."""
    setup = setup_of(dp=4, global_batch=16, zero=zero)
    n = setup.model.parameters
    found = sent(setup, "dp-cp")
    assert found["reduce-scatter" if zero else "all-reduce"] == 4 * n * reduced
    assert found.get("all-gather", 0) == 2 * n * gathered


def test_bytes_of_context_parallelism():
    """Per layer K and V of all ranks: gathered forward and backward, and reduced backward."""
    setup = setup_of(cp=4, global_batch=2)
    kv = 4 * 2 * (32 // 4) * 64 * 2
    assert sent(setup, "cp") == {"all-gather": 2 * 8 * 2 * kv, "reduce-scatter": 2 * 8 * kv}


def test_bytes_of_expert_parallelism():
    """Per layer and micro-batch 4 all-to-alls of K T h 2 bytes."""
    setup = setup_of(MOE, ep=4, dp=4, global_batch=8)
    assert sent(setup, "ep") == {"all-to-all": 2 * 8 * 4 * 2 * 32 * 64 * 2}


def test_recomputation_repeats_the_forward_pass_of_layers():
    """Full: 4/3 of the computation, and 6 instead of 4 all-reduces per layer."""
    plain, full = (setup_of(tp=2, recompute=kind, forward_s=(1, 1, 0)) for kind in ("none", "full"))
    assert computed(full) == pytest.approx(computed(plain) * 4 / 3)
    assert sent(full, "tp")["all-reduce"] - sent(plain, "tp")["all-reduce"] == 16 * 32 * 64 * 2


# --- invariants --------------------------------------------------------------------------------


@st.composite
def setups(draw):
    """Small setups of every kind of parallelism that fit."""
    stages, chunks = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (4, 1)]))
    experts = stages == 1 and draw(st.booleans())
    zero = draw(st.integers(0, 1 if stages > 1 or experts else 3))
    copies = draw(st.integers(1, 2))
    return setup_of(
        MOE if experts else TINY, tp=draw(st.sampled_from([1, 2])),
        cp=draw(st.sampled_from([1, 2])), dp=copies, pp=stages, vpp=chunks, zero=zero,
        global_batch=4 * copies, sequence_parallel=True,
        schedule="interleaved" if chunks > 1 else draw(st.sampled_from(["1f1b", "gpipe"])),
        recompute=draw(st.sampled_from(["none", "selective", "full"])), bucket_size=30_000,
        tp_overlap=draw(st.booleans()), pp_overlap=draw(st.booleans()),
        overlap_param_gather=zero == 1 and draw(st.booleans()),
        step_barrier=draw(st.booleans()), prefetch=draw(st.integers(0, 2)))


@settings(max_examples=examples(15), deadline=None)
@given(setups())
def test_a_rank_does_one_thing_at_a_time_on_each_stream(setup):
    """Operations of a stream of a rank are a chain, from iteration to iteration too."""
    for stage in range(setup.pp):
        program = rank_program(setup, stage)
        last = {}
        for place, step in enumerate(program):
            if step.stream in last:
                assert last[step.stream] in step.after
            last[step.stream] = place
        for step in program:
            if not any(program[other].stream == step.stream for other in step.after):
                assert last[step.stream] in step.after_previous


@settings(max_examples=examples(15), deadline=None)
@given(setups())
def test_all_operations_are_reached_and_computation_is_that_of_the_model(setup):
    made = llm_operations(setup)
    assert sorted(made.sequence.tolist()) == list(range(len(made)))
    ends, = longest_path(made, made.compute_s, 1)
    for rank in range(setup.world):
        assert made.compute_s[made.rank == rank].sum() <= ends.max() * (1 + 1e-12)


# --- what is refused ---------------------------------------------------------------------------


def test_all_that_does_not_fit_is_said_at_once():
    with pytest.raises(InputError) as caught:
        netsim.llm_job("llama-7b", tp=3, pp=5, vpp=2, ep=2, zero=3, global_batch=3, micro_batch=2,
                       overlap_grad_reduce=False, overlap_param_gather=True)
    for part in ("global_batch", "layers", "heads", "ffn", "ep = 2 needs", "'interleaved' exactly",
                 "as in DeepSpeed", "needs overlap_grad_reduce", "needs zero = 1"):
        assert part in str(caught.value)


@pytest.mark.parametrize(("model", "given", "message"), [
    (TINY, {"sequence_parallel": True, "tp": 8, "cp": 8}, "sequence/cp, 4"),
    (TINY, {"cp": 3}, "sequence, 32, is not a multiple of cp = 3"),
    (TINY, {"dp": 4, "global_batch": 15},
     "global_batch, 15, is not a multiple of micro_batch x dp = 1 x 4 = 4"),
    (TINY, {"vocab_multiple": 0, "tp": 3}, "padded vocabulary"),
    (MOE, {"tp": 2}, "need sequence_parallel"),
    (MOE, {"zero": 2}, "not for models with experts"),
    (MOE, {"dp": 2, "cp": 2, "pp": 2, "global_batch": 2, "order": "tp-cp-ep-pp-dp"}, "ends in pp"),
    ({**MOE, "shared_ffn": 8}, {"forward_s": [1, 1, 1]}, "shared experts"),
    (TINY, {"pp": 2, "vpp": 2, "schedule": "interleaved", "global_batch": 1}, "group must be"),
    (TINY, {"pp": 4, "vpp": 2, "schedule": "interleaved", "global_batch": 6}, "last group has 2"),
    (TINY, {"group": 2}, "group is for"),
    (TINY, {"forward_s": [1, 1]}, "three durations"),
    (TINY, {"utilisation": 1.5}, "utilisation must be"),
    (TINY, {"global_batch": 10**30}, "passes of a layer"),
    (TINY, {"tp": 0}, "tp must be a whole number"),
    (TINY, {"tp_overlap": 1}, "tp_overlap must be true or false"),
])
def test_what_does_not_fit_is_refused(model, given, message):
    with pytest.raises(InputError, match=message):
        setup_of(model, **given)


@pytest.mark.parametrize(("given", "message"), [
    ({"name": "gpt5"}, "unknown llm 'gpt5'"), ({"name": "llama-7b", "width": 1}, "'width'"),
    ({"layers": 2}, "needs: hidden"), ({**TINY, "top_k": 1}, "no experts"),
    ({**TINY, "heads": 7}, "give head_dim"), ({**TINY, "kv_heads": 3}, "multiple of kv_heads"),
    ({**TINY, "mlp": "relu"}, "gelu, swiglu"), (7, "must be a name"),
])
def test_transformers_that_are_refused(given, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        make_transformer(given)


def test_options_are_known():
    with pytest.raises(UnknownNameError, match="pipeline"):
        netsim.llm_job("llama-7b", pipeline=2)


def test_ready_made_transformers():
    assert {name: f"{make_transformer(name).parameters / 1e9:.0f}" for name in LLMS} == {
        "gpt3-13b": "13", "gpt3-175b": "175", "llama-7b": "7", "llama-65b": "65", "llama2-7b": "7",
        "llama2-13b": "13", "llama2-70b": "69", "mixtral-8x7b": "47", "deepseek-moe-16b": "16"}
    assert make_transformer({"name": "llama-7b", "layers": 2}).layers == 2


# --- runs --------------------------------------------------------------------------------------


def test_a_file_says_it_too(tmp_path):
    path = tmp_path / "job.toml"
    model = ", ".join(f"{key} = {value}" for key, value in TINY.items())
    path.write_text(f'format = "llm"\nmodel = {{{model}}}\ndp = 2\npp = 2\nglobal_batch = 8\n'
                    "iterations = 2\n")
    job, = netsim.read_workload(path)
    other = netsim.llm_job(TINY, dp=2, pp=2, global_batch=8, iterations=2)
    assert job.ranks == 4
    assert job.hosts == (0, 1, 2, 3)
    assert job.iterations == 2
    assert job.operations is other.operations  # jobs alike share them


def test_errors_of_experiments_name_the_key():
    table = {"format": "llm", "model": TINY, "dp": 2, "global_batch": 2}
    network = {"kind": "big-switch", "hosts": 2}
    for change, message in (({"global_batch": 3}, "workload.dp: llm: global_batch, 3"),
                            ({"zero": 4}, "workload.zero: llm: zero must be"),
                            ({"model": "gpt5"}, "workload.model: unknown llm 'gpt5'")):
        with pytest.raises(netsim.SpecError, match=message):
            netsim.Experiment(network=network, workload=table | change)
    nested = {"llm": {"model": "llama-7b", "tp": 2}}
    with pytest.raises(netsim.SpecError, match="'tp' are no parameters of the model"):
        netsim.Experiment(network=network, workload=nested)
    del table["model"]
    with pytest.raises(netsim.SpecError, match="the format 'llm' needs: model"):
        netsim.Experiment(network=network, workload=table)
    with pytest.raises(InputError, match="needs: model"):
        netsim.read_workload(format="llm", dp=2)


def test_a_placement_says_where_ranks_run():
    """Two ranks that reduce 2 gradients of N bytes, over the links of the hosts that are named."""
    job = netsim.llm_job(TINY, dp=2, global_batch=2, hosts=[3, 1])
    result = netsim.simulate(netsim.big_switch(4, "1GB/s"), [job], record=["coflows", "flows"])
    assert set(zip(result.flows["src"], result.flows["dst"], strict=True)) == {(1, 3), (3, 1)}
    assert result.flows["bytes"].sum() == 2 * 4 * Transformer(**TINY).parameters


def test_exchange_of_a_run_is_what_operations_say():
    """Bytes on the fabric are those of all iterations' sendings; times do not depend on records."""
    job = netsim.llm_job(MOE, ep=2, dp=2, pp=2, global_batch=4, zero=1, iterations=2)
    switch = netsim.big_switch(4, "1GB/s")
    made = job.operations.whole
    nbytes = np.array([each.flows.nbytes.sum() for each in made.sendings])
    result = netsim.simulate(switch, [job], record=["jobs", "coflows", "computations", "links"])
    assert result.jobs["bytes"][0] == pytest.approx(
        2 * nbytes[made.sends[made.sends >= 0]].sum())
    assert len(result.computations) == 2 * np.count_nonzero(made.rank >= 0)
    plain = netsim.simulate(switch, [job])
    assert plain.jobs.equals(result.jobs)
    assert plain.coflows.equals(result.coflows)


def test_an_unknown_option_is_told_beside_the_arguments_of_the_job():
    with pytest.raises(netsim.UnknownNameError, match=r"'arrival' \(did you mean 'arrival_s'"):
        netsim.llm_job("llama-7b", arrival="1s")
