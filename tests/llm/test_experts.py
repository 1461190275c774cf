"""Uneven loads of experts: tokens are conserved, and bytes and seconds follow them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.errors import InputError
from netsim.jobs.plan import expert_counts
from netsim.llm import ExpertLoad, TrainingSetup, Transformer, expert_tokens, llm_operations
from netsim.llm.experts import spread, tokens_of
from netsim.workload.operations import Programs
from tests.examples import examples

MOE = {"layers": 2, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32,
       "experts": 8, "top_k": 2, "moe_ffn": 64}


def setup_of(load, model=MOE, **given):
    return TrainingSetup(model=Transformer(**model), expert_load=load, **{
        "ep": 4, "dp": 4, "global_batch": 4, **given})


def all_to_alls(setup):
    """Flows of the all-to-alls of a setup by name, as matrices of bytes between ranks."""
    made, found = llm_operations(setup), {}
    for k in np.flatnonzero(made.sends >= 0).tolist():
        if made.name_of(k).endswith("ep all-to-all"):
            flows = made.sendings[made.sends[k]].flows
            matrix = np.zeros((made.ranks, made.ranks))
            np.add.at(matrix, (flows.src, flows.dst), flows.nbytes)
            found.setdefault(made.name_of(k), []).append(matrix)
    return found


# --- tokens ------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2, max_size=12).filter(any),
       st.integers(1, 40), st.integers(1, 4), st.integers(1, 9))
def test_whole_tokens_are_conserved_and_chosen_once(shares, tokens, top_k, senders):
    top_k = min(top_k, len(shares))
    found = spread(np.array(shares), tokens, top_k, senders)
    assert (found.sum(axis=1) == tokens * top_k).all()
    assert found.min() >= 0
    assert found.max() <= tokens
    # Senders differ by one token at most, and so do sums from those of exact shares.
    assert (np.ptp(found, axis=0) <= 1).all()


@pytest.mark.parametrize(("tokens", "top_k", "senders"), [(32, 2, 4), (33, 1, 5), (7, 3, 8)])
def test_zipf_with_exponent_0_is_even_within_one_token(tokens, top_k, senders):
    found = spread(ExpertLoad(zipf=0).shares(8, 3), tokens, top_k, senders)
    assert abs(found - tokens * top_k / 8).max() < 1
    assert abs(found.sum(axis=0) - senders * tokens * top_k / 8).max() <= 1


def test_experts_that_all_tokens_choose_get_no_more():
    assert spread(np.array([9.0, 1, 1, 0]), 6, 2, 1).tolist() == [[6, 3, 3, 0]]
    assert spread(np.array([1.0, 0, 0, 0]), 6, 2, 1).tolist() == [[6, 2, 2, 2]]


@pytest.mark.parametrize(("shares", "tokens", "top_k", "senders"), [
    ([0.0, 2, 1, 1, 0, 2], 1, 5, 1), ([0.0, 1, 2, 0, 0, 0], 2262, 3, 7)])
def test_rounding_gives_no_expert_a_token_twice(shares, tokens, top_k, senders):
    found = spread(np.array(shares), tokens, top_k, senders)
    assert found.max() <= tokens
    assert (found.sum(axis=1) == tokens * top_k).all()


def test_capacity_by_hand():
    """A rank makes 64 choices, 8 per expert on average, and keeps ceil(1.3 * 8) = 11 of each."""
    setup = setup_of(ExpertLoad(zipf=1, capacity_factor=1.3))
    found = tokens_of(setup, 0)
    assert (found.kept == np.minimum(found.routed, 11)).all()
    table = expert_tokens(setup)
    assert (table["routed"] == table["dropped"] + table["kept"]).all()
    assert table.groupby("layer")["routed"].sum().tolist() == [4 * 64, 4 * 64]
    assert table["kept"].max() == 4 * 11
    assert table["rank"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    with pytest.raises(InputError, match="needs a setup with expert_load"):
        expert_tokens(setup_of(None))


@pytest.mark.parametrize("factor", [0.5, 1e-9])
def test_a_capacity_below_1_drops_tokens_of_an_even_load(factor):
    """Of 8 tokens of each rank for each expert, 4 are kept, or the one that rounding leaves."""
    found = tokens_of(setup_of(ExpertLoad(zipf=0, capacity_factor=factor)), 0)
    assert (found.kept == max(8 * factor // 1, 1)).all()
    alone = setup_of(ExpertLoad(zipf=1, capacity_factor=factor), {**MOE, "experts": 1, "top_k": 1},
                     ep=1)
    assert tokens_of(alone, 0).kept.tolist() == [[max(32 * factor // 1, 1)]]


@pytest.mark.parametrize("load", [{"dirichlet": 5e-324}, {"dirichlet": 1e-5}, {"dirichlet": 1e9},
                                  {"zipf": 100}])
def test_extreme_loads_conserve_tokens(load):
    for layer in range(20):
        shares = ExpertLoad(**load).shares(64, layer)
        assert np.isfinite(shares).all()
        found = spread(shares, 32, 2, 4)
        assert (found.sum(axis=1) == 64).all()
        assert (found.max() == 32) == (load != {"dirichlet": 1e9})


def between(job):
    """Bytes of all-to-alls of a job between the ranks of a group."""
    return [each.between.tolist() for each in job.operations.families if each.group == "ep"]


def test_loads_follow_the_seed_of_the_workload():
    """Also that of an experiment, unless they have a seed of their own."""
    table = {"model": MOE, "ep": 4, "dp": 4, "global_batch": 4}

    def sent(given, **own):
        load = {"dirichlet": 0.3, **own}
        job = netsim.read_workload(format="llm", **table, seed=given, expert_load=load)[0]
        assert job.operations is netsim.llm_job(**table, seed=given, expert_load=load).operations
        made = netsim.Experiment(network={"kind": "big-switch", "hosts": 4}, seed=given,
                                 workload={"format": "llm", **table, "expert_load": load})
        again = netsim.Experiment(**made.resolved())
        assert between(job) == between(made.jobs[0]) == between(again.jobs[0])
        return between(job)

    assert sent(0) == sent(0, seed=0) == sent(3, seed=0)
    assert sent(1) == sent(0, seed=1)
    assert len({str(sent(seed)) for seed in range(4)}) == 4
    with pytest.raises(InputError, match="llm: seed must be a whole number"):
        netsim.llm_job(MOE, seed=-1)


def test_draws_depend_on_the_seed_and_the_layer_only():
    def popular(**given):
        return [ExpertLoad(**given).shares(8, layer, iteration).tolist()
                for layer in range(4) for iteration in range(2)]
    for kind in ({"zipf": 1.0}, {"dirichlet": 0.5}):
        assert popular(**kind) == popular(**kind) != popular(**kind, seed=1)
        fixed, drawn = popular(**kind), popular(**kind, per_iteration=True)
        assert fixed[::2] == fixed[1::2]
        assert drawn[::2] != drawn[1::2]
        assert len({tuple(each) for each in drawn}) > 4


# --- bytes and seconds -------------------------------------------------------------------------


@settings(max_examples=examples(15), deadline=None)
@given(st.floats(0, 2), st.sampled_from([None, 0.5, 1.25]), st.sampled_from([1, 2]),
       st.sampled_from([1, 2]), st.sampled_from([2, 4]))
def test_bytes_follow_kept_tokens_there_and_back(zipf, capacity, tp, pp, ep):
    setup = setup_of(ExpertLoad(zipf=zipf, capacity_factor=capacity), tp=tp, pp=pp, ep=ep,
                     sequence_parallel=True)
    size, groups = 64 * 2, setup.world // pp // ep
    kept = [tokens_of(setup, layer) for layer in range(2)]
    sums = dict(enumerate(expert_tokens(setup).groupby("layer")["kept"].sum() * size))
    for name, parts in all_to_alls(setup).items():
        assert len(parts) in (groups, 2 * groups)  # there and back have the same name
        layer = int(name.split("/")[1].partition(".")[0])
        inside = groups * size * np.trace(kept[layer].between())
        there, back = np.array(parts[:groups]).sum(axis=0), np.array(parts[groups:]).sum(axis=0)
        assert there.sum() + inside == sums[layer]
        assert (back == there.T).all()


def test_seconds_and_tensor_groups_follow_the_tokens_of_a_rank():
    even, uneven = (setup_of(load, tp=2, sequence_parallel=True)
                    for load in (None, ExpertLoad(zipf=1.5)))
    work = tokens_of(uneven, 0).work()
    assert work.sum() == 4
    assert work.max() > 2
    first, other = (llm_operations(each) for each in (even, uneven))
    assert [first.name_of(k) for k in range(len(first))] == [
        other.name_of(k) for k in range(len(other))]
    for k in range(len(first)):
        if first.name_of(k) == "F0.0/0.mlp/compute":
            place = first.rank[k] // 2
            assert other.compute_s[k] == first.compute_s[k] * work[place]
        elif first.name_of(k) == "F0.0/0.mlp/tp all-gather":
            flows = other.sendings[other.sends[k]].flows
            place = int(flows.src[0]) // 2
            mean = first.sendings[first.sends[k]].flows.nbytes
            assert flows.nbytes == pytest.approx(mean * work[place])


@pytest.mark.parametrize("more", [{}, {"tp": 2, "sequence_parallel": True}, {"pp": 2},
                                  {"ep": 1}, {"model": {**MOE, "experts": 1, "top_k": 1}, "ep": 1}])
def test_an_even_load_of_whole_tokens_is_that_without_the_option(more):
    """To the byte: all tables, also with one expert, or with all experts on each rank."""
    given = {"model": MOE, "ep": 4, "dp": 4, "global_batch": 8, "iterations": 2} | more
    switch = netsim.big_switch(8, "1GB/s")
    even, zero = (netsim.simulate(switch, [netsim.llm_job(**given, **load)], symmetry=False,
                                  record=["jobs", "coflows", "computations"])
                  for load in ({}, {"expert_load": {"zipf": 0}}))
    for name in ("jobs", "coflows", "computations"):
        assert getattr(zero, name).equals(getattr(even, name))


def test_all_ranks_are_simulated_and_the_busy_one_is_slow():
    job = netsim.llm_job(MOE, ep=4, dp=4, global_batch=4,
                         expert_load={"zipf": 1.5, "capacity_factor": 2})
    result = netsim.simulate(netsim.big_switch(4, "1GB/s"), [job], record=["jobs", "computations"])
    summary = result.summary()
    assert "simulated_ranks" not in summary
    table = expert_tokens(setup_of(ExpertLoad(zipf=1.5, capacity_factor=2)))
    assert summary["routed_tokens"] == table["routed"].sum()
    assert summary["dropped_tokens"] == table["dropped"].sum() > 0
    rows = result.computations
    own = rows[rows["stage"] == "F0.0/0.mlp/compute"]
    seconds = own.eval("finish_s - start_s").to_numpy()
    kept = table[table["layer"] == 0].groupby("rank")["kept"].sum().to_numpy()
    assert seconds / seconds.sum() == pytest.approx(kept / kept.sum())


def test_iterations_differ():
    """Each iteration has the bytes of its own draw, and the bound is that of the run alone."""
    load = {"dirichlet": 0.3, "per_iteration": True, "capacity_factor": 1.5}
    given = {"ep": 4, "dp": 4, "global_batch": 4}
    job = netsim.llm_job(MOE, iterations=3, expert_load=load, **given)
    switch = netsim.big_switch(4, "1TB/s")
    result = netsim.simulate(switch, [job], record=["jobs", "coflows"], symmetry=False)
    assert result.jobs["lower_bound_s"][0] <= result.jobs["finish_s"][0]
    setup = setup_of(ExpertLoad(**load))
    rows = result.coflows[result.coflows["stage"] == "F0.0/0.mlp/ep all-to-all"]
    for iteration, own in rows.groupby("iteration"):
        between = tokens_of(setup, 0, iteration).between()
        assert own["bytes"].tolist() == 2 * [128 * (between.sum() - np.trace(between))]
    dropped = sum(expert_tokens(setup, k)["dropped"].sum() for k in range(3))
    assert result.summary()["dropped_tokens"] == dropped
    assert result.jobs["bytes"][0] == pytest.approx(result.coflows["bytes"].sum())
    # Bytes and seconds scale in all iterations.
    more = job.scaled(1, 2, 3)
    assert more.operations.whole.variants[2].compute_s == pytest.approx(
        3 * job.operations.whole.variants[2].compute_s)
    assert netsim.simulate(switch, [more], symmetry=False).jobs["bytes"][0] == pytest.approx(
        2 * result.jobs["bytes"][0])


def test_iterations_that_differ_are_limited():
    given = {"ep": 4, "dp": 4, "global_batch": 4, "expert_load": {"zipf": 1, "per_iteration": True}}
    count = len(netsim.llm_job(MOE, **given).operations)
    with pytest.raises(InputError, match=rf"expert_load: {1_000_000 * count:,} is above the limit "
                                         r"of 4,000,000 operations .*limits = {operations = ...}"):
        netsim.llm_job(MOE, iterations=1_000_000, **given)
    load = {"format": "llm", "model": MOE, **given, "iterations": 3}
    with pytest.raises(InputError, match="is above the limit of 100 operations"):
        netsim.read_workload(**load | {"expert_load": given["expert_load"] | {"seed": 7}},
                             limits={"operations": 100})
    many = netsim.llm_job(MOE, iterations=10**9, **given | {"expert_load": {"zipf": 1}})
    assert expert_counts(netsim.Workload([many]))["routed_tokens"] == 10**9 * 2 * 4 * 64


def test_jobs_of_a_cluster_have_the_iterations_of_their_draws():
    """Two jobs one after the other on the same GPUs take as long as each alone."""
    servers = netsim.gpu_cluster(servers=1, gpus=4)
    jobs = [netsim.llm_job(MOE, id=k, ep=4, dp=4, global_batch=4, iterations=3, expert_load={
        "dirichlet": 0.3, "per_iteration": True}) for k in range(2)]
    both = netsim.simulate(servers, jobs, scheduler="fifo", execution="fabric")
    alone = netsim.simulate(servers, jobs[:1])
    assert both.jobs["finish_s"].tolist() == pytest.approx(
        [alone.jobs["finish_s"][0], 2 * alone.jobs["finish_s"][0]])
    assert both.summary()["routed_tokens"] == 2 * alone.summary()["routed_tokens"]


def test_the_least_times_of_coflows_differ_by_iteration():
    job = netsim.llm_job(MOE, ep=4, dp=4, global_batch=4, iterations=3, expert_load={
        "dirichlet": 0.3, "per_iteration": True})
    switch = netsim.big_switch(4, "1GB/s")
    result = netsim.simulate(switch, [job], record=["jobs", "coflows"])
    assert (result.coflows["gamma_s"] <= result.coflows["cct_s"] * (1 + 1e-9)).all()
    assert result.coflows.groupby("iteration")["gamma_s"].sum().nunique() == 3
    for policy in ("sebf", "parrot", "lp-order"):
        other = netsim.simulate(switch, [job], allocator=policy)
        assert other.jobs["bytes"][0] == pytest.approx(result.jobs["bytes"][0])


def test_jobs_that_are_alike_share_their_programs():
    jobs = [netsim.llm_job(MOE, ep=4, dp=4, global_batch=4, id=k, expert_load={"zipf": 1})
            for k in range(2)]
    assert isinstance(jobs[0].operations, Programs)
    assert jobs[0].operations is jobs[1].operations


# --- files and errors --------------------------------------------------------------------------


def test_a_file_by_hand(tmp_path):
    """Rank 0 of 2 has experts 0 and 1; each rank sends 32 tokens to one expert each."""
    path = tmp_path / "tokens.csv"
    path.write_text("iteration,layer,a,b,c,d\n0,0,16,0,8,8\n0,1,1,1,1,1\n"
                    "1,0,0,0,0,9\n1,1,1,0,0,0\n")
    model = {**MOE, "experts": 4, "top_k": 1}
    setup = setup_of(ExpertLoad(file=path), model, ep=2, dp=2, global_batch=2)
    assert tokens_of(setup, 0).routed.tolist() == [[16, 0, 8, 8]] * 2
    assert tokens_of(setup, 0).between().tolist() == [[16, 16]] * 2
    assert tokens_of(setup, 0, 1).between().tolist() == [[0, 32]] * 2
    assert tokens_of(setup, 1, 3).between().tolist() == [[32, 0]] * 2  # iteration 1 again
    job = netsim.llm_job(model, ep=2, dp=2, global_batch=2, iterations=5,
                         expert_load={"file": str(path)})
    assert len(job.operations.variants) == 2
    result = netsim.simulate(netsim.big_switch(2, "1GB/s"), [job], record=["jobs", "coflows"])
    own = result.coflows[result.coflows["stage"] == "F0.0/0.mlp/ep all-to-all"]
    assert own["bytes"].tolist() == [2 * 16 * 128] * 2 + [32 * 128] * 2 + [2 * 16 * 128] * 2 + [
        32 * 128] * 2 + [2 * 16 * 128] * 2


@pytest.mark.parametrize(("text", "message"), [
    ("", "the file is empty"), ("expert,1\n0,1\n", "must have a header"),
    ("layer,a\n", "must have a header"), ("layer,a\n0,x\n", "line 2 must be numbers, not '0,x'"),
    ("layer,a,b\n0,1\n", "line 2 has 2 values, and the header 3"),
    ("layer,a\n0,-1\n", "line 2 must have tokens or shares"), ("layer,a\n0,0\n", "not only 0"),
    ("layer,a\n0,nan\n", "must have tokens"), ("layer,a,b\n0,1,inf\n", "line 2 must have tokens"),
    ("layer,a\n0,1\n\n1,0\n", "line 4 must have tokens"), ("layer,a\n0.5,1\n", "must be numbers"),
    ("layer," + "a" * 200_000 + "\n0,1\n", "not a table: field larger than field limit"),
    ("iteration,layer,a\n" + "".join(f"{k},0,1\n" for k in range(1, 99)), "not 1, 2, .*, 10$"),
    ("layer,a\n0,1\n0,2\n", "line 3 repeats layer 0"),
    ("iteration,layer,a\n1,0,1\n", "the iterations 0, 1, ..., not 1")])
def test_files_that_are_refused(tmp_path, text, message):
    path = tmp_path / "tokens.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        ExpertLoad(file=path)


@pytest.mark.parametrize(("load", "message"), [
    ({}, "exactly one of zipf, dirichlet and file, not none"),
    ({"zipf": 1, "dirichlet": 1}, "not zipf and dirichlet"), ({"zipf": -1}, "expert_load: zipf"),
    ({"dirichlet": 0}, "expert_load: dirichlet"), ({"dirichlet": 1e10}, r"\(0, 1e\+09\]"),
    ({"zipf": 1, "seed": -1}, "expert_load: seed"), ({"zipf": 1, "capacity_factor": 0}, "capacity"),
    ({"zipf": 1, "per_iteration": 1}, "must be true or false"), (1.2, "must be a table such as")])
def test_loads_that_are_refused(load, message):
    with pytest.raises(InputError, match=message):
        netsim.llm_job(MOE, ep=4, dp=4, global_batch=4, expert_load=load)


def test_large_files_are_refused_before_they_are_parsed(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text("layer,a,b\n0,1,2\n1,3,4\n")
    load = {"format": "llm", "model": {**MOE, "experts": 2}, "expert_load": {"file": str(path)}}
    netsim.read_workload(**load, limits={"cells": 9})
    with pytest.raises(InputError, match="expert_load: 9 is above the limit of 8 cells"):
        netsim.read_workload(**load, limits={"cells": 8})


def test_what_contradicts_the_model_is_refused(tmp_path):
    path = tmp_path / "tokens.csv"
    path.write_text("layer,a\n0,1\n1,1\n")
    with pytest.raises(InputError, match=r"has 1 experts, and the model 8"):
        setup_of(ExpertLoad(file=path))
    path.write_text("layer,a\n0,1\n")
    with pytest.raises(InputError, match=r"no layer 1 in iteration 0; layers 0 to 1"):
        setup_of(ExpertLoad(file=path))
    with pytest.raises(InputError, match="per_iteration is for zipf and dirichlet"):
        ExpertLoad(file=path, per_iteration=True)
    with pytest.raises(InputError, match="experts, 8, is not a multiple of ep = 16"):
        netsim.llm_job(MOE, ep=16, dp=16, global_batch=16, expert_load={"zipf": 1})
    with pytest.raises(InputError, match="expert_load needs a model with experts"):
        netsim.llm_job("llama-7b", expert_load={"zipf": 1})


def test_experiment_files_say_it_too(tmp_path):
    (tmp_path / "tokens.csv").write_text("layer,a,b,c,d,e,f,g,h\n0,8,1,1,1,1,1,1,1\n"
                                         "1,1,1,1,1,1,1,1,9\n")
    table = {"format": "llm", "model": MOE, "ep": 4, "dp": 4, "global_batch": 4}
    network = {"kind": "big-switch", "hosts": 4}
    with pytest.raises(netsim.SpecError, match=r"workload.expert_load: unknown .* 'zip' .*, file"):
        netsim.Experiment(network=network, workload=table | {"expert_load": {"zip": 1}})
    with pytest.raises(netsim.SpecError, match=r"workload.expert_load.*capacity_factor must be"):
        netsim.Experiment(network=network, workload=table | {
            "expert_load": {"zipf": 1, "capacity_factor": -1}})
    file = tmp_path / "job.toml"
    file.write_text('name = "a"\nallocator = "maxmin"\n[network]\nkind = "big-switch"\nhosts = 4\n'
                    '[workload]\nformat = "llm"\nep = 4\ndp = 4\nglobal_batch = 4\n'
                    'expert_load = {file = "tokens.csv", capacity_factor = 1.5}\n[workload.model]\n'
                    + "".join(f"{key} = {value}\n" for key, value in MOE.items()))
    made = netsim.load_experiment(file)
    result = netsim.simulate(made.target, made.jobs)
    assert result.summary()["dropped_tokens"] > 0
    again = netsim.Experiment(**made.resolved())
    assert netsim.simulate(again.target, again.jobs).jobs.equals(result.jobs)
