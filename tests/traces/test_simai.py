"""Workloads of SimAI and AICB, as jobs, by hand."""

import numpy as np
import pytest

import netsim
from netsim.cli.main import main
from netsim.errors import InputError, NetsimWarning, TraceError, UnknownNameError
from netsim.traces.training.simai import read_simai, simai_times
from netsim.traces.training.simai_tool import read_busbw
from netsim.workload.operations import Sending
from tests.traces.simai_files import AICB, COLUMNS, aicb_stages, layer, simai

MB = 10**6
GOOD = layer("a", (1, "NONE", 0), (1, "NONE", 0), (1, "NONE", 0))


def write(folder, text, name="w.txt"):
    path = folder / name
    path.write_text(text)
    return path


def took(path, ranks=4, rate=1e9, **options):
    workload = netsim.read_workload(path, **options)
    result = netsim.simulate(netsim.big_switch(ranks, rate), workload,
                             record=["jobs", "coflows"])
    return result.jobs["jct_s"][0]


# --- times --------------------------------------------------------------------------------------


def test_forward_waits_and_weights_do_not(tmp_path):
    """Two layers of tp = 2, dp = 2. An all-reduce of S takes 2 (2 - 1)/2 S / 1 GB/s = S / 1 GB/s.

    Forward: 1 ms, 4 MB in 4 ms, 2 ms. Backward: layer 1 has 3 + 5 ms and leaves 1 MB of DP behind,
    which is done in the 6 ms of layer 0; that of layer 0 begins at the end, 2 MB in 2 ms:
    1 + 4 + 2 + 3 + 5 + 6 + 2 = 23 ms.
    """
    path = write(tmp_path, simai([layer("a", (1e6, "ALLREDUCE", 4 * MB), (6e6, "NONE", 0),
                                        (0, "ALLREDUCE", 2 * MB)),
                                  layer("b", (2e6, "NONE", 0), (3e6, "NONE", 0),
                                        (5e6, "ALLREDUCE", MB))], tp=2, gpus=4))
    assert took(path) == pytest.approx(23e-3, rel=1e-12)
    assert took(path, iterations=3) == pytest.approx(69e-3, rel=1e-12)


def test_update_makes_collectives_late(tmp_path):
    """The forward collective and the last one of the weights end 1 ms late each: 4 + 1 + 2 + 1."""
    path = write(tmp_path, simai([layer("a", (0, "ALLREDUCE", 4 * MB), (0, "NONE", 0),
                                        (0, "ALLREDUCE", 2 * MB), update=MB)], tp=2, gpus=4))
    assert took(path) == pytest.approx(8e-3, rel=1e-12)


def test_small_forward_collectives_count_4096_bytes_where_simai_says_so(tmp_path):
    rows = [layer("a", (0, "ALLREDUCE", 5), (0, "ALLREDUCE", 100), (0, "NONE", 0))]
    for policy, nbytes in (("HYBRID_TRANSFORMER_FWD_IN_BCKWD", 4196), ("HYBRID_TRANSFORMER", 105)):
        path = write(tmp_path, simai(rows, policy=policy, tp=2, gpus=4))
        assert took(path) == pytest.approx(nbytes / 1e9, rel=1e-12)


def test_layers_are_computed_again_from_the_nearest_checkpoint(tmp_path):
    """Forward 1 + 2 + 4 ms; before the gradients of layer 2, layers 1 again: 2 ms."""
    rows = [layer(str(k), (2**k * MB, "NONE", 0), (0, "NONE", 0), (0, "NONE", 0))
            for k in range(3)]
    path = write(tmp_path, simai(rows, gpus=2, more="checkpoints: 2 0 1 checkpoint_initiates: 1 2"))
    assert took(path) == pytest.approx(9e-3, rel=1e-12)


def test_measurements_come_one_after_the_other(tmp_path):
    """Two all-gathers among all 4 ranks, of 4 MB and 8 MB: 3/4 of each at 1 GB/s."""
    text = "MICRO\n2\n" + "\n".join(layer("m", (1, "NONE", 0), (1, "NONE", 0),
                                          (0, "ALLGATHER", size * MB)) for size in (4, 8))
    assert took(write(tmp_path, text), gpus=4) == pytest.approx(9e-3, rel=1e-12)


def test_measurements_are_of_all_ranks_whatever_their_words_say(tmp_path):
    text = "MICRO\n1\n" + layer("m", (1, "NONE", 0), (1, "NONE", 0), (0, "ALLTOALL_EP", 4 * MB))
    assert took(write(tmp_path, text), gpus=4) == pytest.approx(3e-3, rel=1e-12)


def test_experts_and_their_data_parallel_groups(tmp_path):
    """With dp = 4, ep = 2 of 4 ranks: all-to-all in {0, 1}, {2, 3}, the other in {0, 2}, {1, 3}."""
    path = write(tmp_path, simai([layer("a", (0, "ALLTOALL_EP", 2 * MB), (0, "NONE", 0),
                                        (0, "ALLREDUCE_DP_EP", 4 * MB))], ep=2, gpus=4))
    workload = netsim.read_workload(path)
    groups = {each.group: each.members.tolist() for each in workload[0].operations.families}
    assert groups == {"ep": [[0, 1], [2, 3]], "dp-ep": [[0, 2], [1, 3]]}
    assert took(path) == pytest.approx(1e-3 + 4e-3, rel=1e-12)


def test_stages_send_activations(tmp_path):
    """Two stages of 2 ranks each; a layer of 10 ms each way, and 2 x 1 messages of 1 MB each way.

    The end waits for the last ones, which begin with it and share the ports: 20 + 2 ms.
    """
    path = write(tmp_path, simai([layer("a", (10 * MB, "NONE", 0), (10 * MB, "NONE", 0),
                                        (0, "NONE", 0))], pp=2, gpus=4,
                                 more="ga: 2 pp_comm: 1000000.0"))
    result = netsim.simulate(netsim.big_switch(4, 1e9), netsim.read_workload(path),
                             record=["jobs", "flows"])
    assert result.jobs["jct_s"][0] == pytest.approx(22e-3, rel=1e-12)
    assert result.jobs["bytes"][0] == 4 * 4 * MB
    pairs = set(zip(result.flows["src"], result.flows["dst"], strict=True))
    assert pairs == {(0, 2), (1, 3), (2, 0), (3, 1)}


@pytest.mark.parametrize("rings", [1, 2, 4])
def test_rings_share_a_payload(rings):
    """Each rank sends 2 (n - 1)/n of the payload in all, whatever rings there are; each ring
    leaves a server from another rank.
    """
    flows = Sending.of("all-reduce", range(8), 800, rings=rings).flows
    assert np.bincount(flows.src, flows.nbytes).tolist() == [1400.0] * 8
    assert np.bincount(flows.dst, flows.nbytes).tolist() == [1400.0] * 8
    leaving = [int(src) for src, dst in zip(flows.src, flows.dst, strict=True)
               if src // rings != dst // rings]
    assert sorted(leaving) == list(range(8)) if rings > 1 else len(leaving) == 8


def test_groups_on_several_gpus_of_servers_use_all_their_nics(tmp_path):
    """With dp = 8 on 2 servers of 4: 4 rings of a quarter; a NIC takes 2 x 7/8 of a quarter of
    8 MB, 3.5 ms at 1 GB/s, as NVLink is fast. One ring takes 14 ms.
    """
    path = write(tmp_path, simai([layer("a", (0, "NONE", 0), (0, "NONE", 0),
                                        (0, "ALLREDUCE", 8 * MB))], gpus=8))
    net = netsim.gpu_cluster(2, 4, "1000GB/s", "1GB/s", rails=1, spine=0)
    times = [netsim.simulate(net, netsim.read_workload(path, gpus_per_server=each)
                             ).jobs["jct_s"][0] for each in (4, 8)]
    assert times == pytest.approx([3.5e-3, 14e-3], rel=1e-9)


def test_one_rank_of_each_class_is_as_good_as_all(tmp_path):
    path = write(tmp_path, simai([layer("a", (1e6, "ALLTOALL_EP", 2 * MB), (1e6, "ALLGATHER", MB),
                                        (1e5, "ALLREDUCE_DP_EP", 4 * MB))], tp=2, ep=2, pp=2,
                                 gpus=16, more="pp_comm: 100000 ga: 2"))
    workload = netsim.read_workload(path, gpus_per_server=4, iterations=2)
    net = netsim.gpu_cluster(4, 4, "10GB/s", "1GB/s", rails=1, spine=0)
    one, every = (netsim.simulate(net, workload, symmetry=on, record=["jobs", "coflows"])
                  for on in (True, False))
    assert one.jobs["jct_s"][0] == pytest.approx(every.jobs["jct_s"][0], rel=1e-12)


# --- the tool's arithmetic ----------------------------------------------------------------------


def test_the_tools_arithmetic(tmp_path):
    """With tp = 2, dp = 2, pp = 2 on servers of 4 GPUs, 4 NICs. TP all-reduce, 2 GiB at 100 GiB/s:
    2 x 1/2 x 20 ms; DP of several servers by min(V', 2 x 10) = 20 GiB/s, 4 GiB: 200 ms; computes
    10 + 20 + 30 ms; the bubble is (2 - 1)/2 of forward and inputs: (60 + 20)/2 = 40 ms.
    """
    gib = 2**30
    path = write(tmp_path, simai([layer("a", (1e7, "ALLREDUCE", 2 * gib), (2e7, "NONE", 0),
                                        (3e7, "ALLREDUCE", 4 * gib))], tp=2, pp=2, gpus=8,
                                 more="ga: 2 pp_comm: 4"))
    rates = {"nvlink": "100GiB/s", "nic": "10GiB/s", "gpus_per_server": 4}
    times = simai_times(path, **rates)
    assert times == pytest.approx((0.06, 0, 0.02, 0, 0.2, 0.04, 0), rel=1e-6)
    assert times.exposed_s == pytest.approx(0.22, rel=1e-6)
    assert took(path, 8, simai="analytical", **rates) == pytest.approx(times.total_s, rel=1e-9)
    hidden = simai_times(path, overlap={"dp": 0.5}, **rates)
    assert hidden.dp_s == pytest.approx(0.1, rel=1e-6)


BUSBW = """name
TP:
allreduce,: 50
alltoall,: null
DP:
allreduce,: null  # by its own arithmetic
PP:
busbw: 47.5"""


def test_bandwidths_may_be_listed(tmp_path):
    """TP all-reduces of 2 GiB at 50 GiB/s: 2 x 1/2 x 40 ms; DP of 4 GiB at 10 GiB/s as without."""
    gib = 2**30
    path = write(tmp_path, simai([layer("a", (0, "ALLREDUCE", 2 * gib), (0, "NONE", 0),
                                        (0, "ALLREDUCE", 4 * gib))], tp=2, gpus=4))
    rates = {"nvlink": "100GiB/s", "nic": "10GiB/s", "gpus_per_server": 2}
    write(tmp_path, BUSBW, "busbw.yaml")
    times = simai_times(path, busbw="busbw.yaml", **rates)
    assert times.tp_s == pytest.approx(0.04, rel=1e-6)
    assert times.dp_s == simai_times(path, **rates).dp_s > 0
    assert took(path, simai="analytical", busbw="busbw.yaml", **rates) == pytest.approx(
        times.total_s, rel=1e-9)
    with pytest.raises(InputError, match="busbw is for the arithmetic"):
        netsim.read_workload(path, busbw="busbw.yaml")


@pytest.mark.parametrize(("line", "problem"), [
    ("allreduce,: 1", "2: must be a group"), ("XP:", "2: unknown group 'XP'"),
    ("TP:\nallreduce,: -1", "3: allreduce must be a number of GiB/s above 0, or null, not '-1'"),
    ("TP:\nallreduce,: 1_0", "3: .*not '1_0'"), ("TP:\nallreduce,: \uff11", "3: .*not '\uff11'"),
    ("TP:\nallreduce,: x", "3: .*not 'x'"), ("TP:\nallreduce,: 1 2", "3: must be a collective"),
    ("TP:\nallreduce,: 1\nallreduce,: 2", "4: allreduce of TP is there already"),
    ("TP:\nbroadcast,: 1", "3: must be a collective"), ("TP:\nalltoall,: 1e99", "3: .*'1e99'")])
def test_bad_lists_of_bandwidths(tmp_path, line, problem):
    path = write(tmp_path, simai([GOOD], gpus=2))
    write(tmp_path, f"name\n{line}\n", "busbw.yaml")
    with pytest.raises(TraceError, match=rf"busbw\.yaml:{problem}"):
        simai_times(path, nvlink=1, nic=1, busbw="busbw.yaml")


@pytest.mark.parametrize("first", ["", "name\n", "# a comment\n", "\n"])
def test_the_first_line_of_bandwidths_is_a_name_or_the_first_group(tmp_path, first):
    (tmp_path / "busbw.yaml").write_text(f"{first}TP:\nallreduce,: 2\n")
    assert read_busbw(tmp_path / "busbw.yaml") == {("tp", "all-reduce"): 2 * 2**30}
    (tmp_path / "busbw.yaml").write_text(f"allreduce,: 3\n{first}TP:\nallreduce,: 2\n")
    with pytest.raises(TraceError, match=r"busbw\.yaml:1: must be a group"):
        read_busbw(tmp_path / "busbw.yaml")


def test_sizes_of_0_take_no_time_unless_strict(tmp_path):
    """As AICB writes them where there is nothing to send; the errors say where they stand."""
    path = write(tmp_path, simai([layer("a", (1000, "ALLREDUCE", 0), *[(0, "NONE", 0)] * 2)],
                                 gpus=2, tp=2))
    assert took(path) == pytest.approx(1e-6)
    with pytest.raises(TraceError, match=r"w.txt: layer 0 \(a\), forward: size of all-reduce must"):
        netsim.read_workload(path, strict=True)
    path = write(tmp_path, AICB.replace("4000000", "0"), "w.csv")
    assert len(netsim.read_workload(path)[0].operations)
    with pytest.raises(TraceError, match=r"w.csv:5: msg_size of all-reduce of tp must be at least"):
        netsim.read_workload(path, strict=True)
    assert len(netsim.read_workload(write(tmp_path, AICB, "w.csv"), strict=True)[0].operations)


def test_efficiencies_make_collectives_longer(tmp_path):
    """At 1 MiB half of what the last row has, at 3 MiB three quarters: between them, linear."""
    table = "size" + ",c" * 12 + "".join(
        f"\n{size << 20}," + ",".join([value] * 12) for size, value in (
            (1, "0.4"), (3, "0.6"), (64, "0.8")))
    for name in ("nic", "nvlink", "ata"):
        write(tmp_path, table, f"{name}_ratio.csv")
    path = write(tmp_path, simai([layer("a", (0, "ALLGATHER", 2 << 20), (0, "ALLGATHER", 64 << 20),
                                        (0, "NONE", 0))], tp=2, gpus=2))
    got = took(path, 2, efficiency=".", nvlink="1GB/s", nic="1GB/s")
    assert got == pytest.approx(((1 << 20) / 0.625 + (32 << 20)) / 1e9, rel=1e-6)
    small = write(tmp_path, simai([layer("a", (0, "ALLGATHER", 9000), (0, "NONE", 0),
                                         (0, "NONE", 0))], tp=2, gpus=2))
    assert took(small, 2, efficiency=".", nvlink="1GB/s", nic="1GB/s") == pytest.approx(1e-5)


@pytest.mark.parametrize("lines", [1, 2])
def test_a_file_of_aicb_without_its_title_says_so(tmp_path, lines):
    path = write(tmp_path, AICB.split("\n", lines)[lines], "w.csv")
    with pytest.raises(TraceError, match=r"w\.csv:1: must be a title such as '\[rank0 ~ rank7\]'"):
        netsim.read_workload(path)


# --- files of AICB ------------------------------------------------------------------------------


def test_rows_of_aicb_come_one_after_the_other(tmp_path):
    """Without the initialization: an all-reduce of 4 MB in {0, 1}, twice, 4 ms each; a barrier; a
    broadcast of 1 MB to all, 1 ms.
    """
    path = write(tmp_path, AICB, "w.csv")
    assert took(path) == pytest.approx(9e-3, rel=1e-12)
    assert took(path, skip_init=False) == pytest.approx(9e-3 + 4e-3 * 3 / 2, rel=1e-12)
    with pytest.warns(NetsimWarning, match="computations have no times"):
        netsim.read_workload(write(tmp_path, f"{AICB}CommType.computation,None,None,"
                                   '"((1, 2), (2, 3))",forward,None,None,,None,None,None,1\n',
                                   "c.csv"))


@pytest.mark.parametrize(("row", "problem"), [
    ("CommType.all_reduce,CommGroup.tp_group,2,4x,f,,,,,,,1", "msg_size must be .* not '4x'"),
    ("CommType.all_reduce,CommGroup.tp_group,4,4,f,,,,,,,1", "has 4 ranks here and 2 in line"),
    ("CommType.all_reduce,CommGroup.all,2,4,f,,,,,,,1", "there are 4 ranks, not 2"),
    ("CommType.all_reduce,CommGroup.x,2,4,f,,,,,,,1",
     "comm_group must be one of tp_group, .*, not 'x'"),
    ("CommType.x,CommGroup.tp_group,2,4,f,,,,,,,1",
     "comm_type must be one of all_reduce, .*, not 'x'"),
    ("CommType.isend,CommGroup.pp_group,2,4,f,1,,,,,,1", "'isend' is not the same for all"),
    ("CommType.all_reduce,CommGroup.tp_group,2,4,f,,,,,,,9999999", "above the limit of 500,000 "),
    ("CommType.all_reduce,1", "2 values for 12 columns"),
])
def test_bad_rows_of_aicb(tmp_path, row, problem):
    path = write(tmp_path, f"{AICB}{row}\n", "w.csv")
    with pytest.raises(TraceError, match=rf"w\.csv:{len(AICB.splitlines()) + 1}: .*{problem}"):
        netsim.read_workload(path)


def test_groups_of_aicb_that_do_not_go_together(tmp_path):
    row = "CommType.all_reduce,CommGroup.dp_group,3,4,f,,,,,,,1"
    with pytest.raises(TraceError, match="dp groups have 3 ranks, not 4: there are 4 ranks"):
        netsim.read_workload(write(tmp_path, f"[rank0 ~ rank3]\n{COLUMNS}\n{row}\n", "w.csv"))


FIRST = [("all_reduce", "pp_group", 2, 8, "init.x", ""), ("epoch_end", "None", "None", 0, "", ""),
         ("all_reduce", "tp_group", 2, 4 * MB, "forward", ""),
         ("irecv", "pp_group", 1, MB, "forward_step", "recv_next"),
         ("isend", "pp_group", 1, MB, "forward_step", "send_next"),
         ("all_reduce", "embedding_group", 2, 2 * MB, "step", "")]
LAST = [*FIRST[:2], ("irecv", "pp_group", 1, MB, "forward_step", "recv_prev"), FIRST[2],
        ("isend", "pp_group", 1, MB, "backward_step", "send_prev"), FIRST[5]]


def test_stages_of_aicb_send_to_each_other(tmp_path):
    """Stage 0 reduces for 4 ms, sends 1 MB in 1 ms, and waits. Stage 1 then reduces for 4 ms and
    sends back for 1; both reduce 2 MB of embeddings in 2 ms: 4 + 1 + 4 + 1 + 2 = 12 ms.
    """
    path = write(tmp_path, aicb_stages(FIRST, LAST), "w.csv")
    assert took(path) == pytest.approx(12e-3, rel=1e-12)
    assert took(path, iterations=2) == pytest.approx(24e-3, rel=1e-12)
    assert took(path, skip_init=False) == pytest.approx(12e-3 + 8e-9, rel=1e-9)
    made = netsim.read_workload(path, gpus=8)[0].operations.sendings
    pairs = {each.communication.members for each in made if each.communication.kind == "send"}
    assert pairs == {(0, 4), (1, 5), (2, 6), (3, 7), (4, 0), (5, 1), (6, 2), (7, 3)}


@pytest.mark.parametrize(("text", "problem"), [
    (aicb_stages(FIRST, LAST).replace("pp_stage1", "pp_stage2"),
     r"w\.csv:9: must be the title of stage 1 of the pipeline, with the next 2 ranks, from rank 2"),
    (aicb_stages(FIRST, LAST).replace("rank3", "rank4"), r"w\.csv:9: must be the title of stage 1"),
    (aicb_stages(FIRST, LAST).replace("recv_next", "irecv_next"),
     r"w\.csv:6: additional: a message must be one of recv_next, recv_prev, not 'irecv_next'"),
    (aicb_stages(FIRST, LAST).replace("pp_group,2", "pp_group,3"),
     "pp groups have 3 ranks, not 2: there are 4 ranks in 2 stages"),
    (aicb_stages([*FIRST[:3], FIRST[5]], LAST),
     r"rank 2: line 11 \('recv'\) receives message 0 from rank 0 to 2 with tag 0, which rank 0 do"),
    (aicb_stages(FIRST, LAST[:-1]), r"w\.csv: rank 0: line 8 \('all-reduce'\) is collective 0 of "
     "group 'embedding' of ranks 0, 2, which rank 2 does not reach"),
    (aicb_stages(FIRST), r"w\.csv:3: 'pp_group' is not the same for all ranks"),
    (aicb_stages(FIRST, LAST).replace(COLUMNS, "a,b", 1), r"w\.csv:2: must be the columns"),
    (aicb_stages(FIRST, []), r"w\.csv:11: there are no rows"),
    ("[ pp_stage0: [] ]", r"w\.csv:1: must be a title"),
    (aicb_stages([*FIRST[:4], FIRST[2], FIRST[4]], LAST[:5]),
     r"circle:\nrank 0: line 6 \('recv'\) waits for line 15 \('send'\) of rank 2\nrank 2: "),
])
def test_bad_stages_of_aicb(tmp_path, text, problem):
    with pytest.raises(TraceError, match=problem):
        netsim.read_workload(write(tmp_path, text, "w.csv"))


# --- scaling ------------------------------------------------------------------------------------


def test_groups_grow(tmp_path):
    rows = [layer("a", (0, "ALLTOALL_EP", 2 * MB), (0, "ALLREDUCE", MB),
                  (0, "ALLREDUCE_DP_EP", MB))]
    path = write(tmp_path, simai(rows, tp=2, ep=2, pp=2, gpus=16, more="pp_comm: 9"))
    for options, ranks, groups in (({"dp": 4}, 64, {"ep": (32, 2), "tp": (32, 2), "dp-ep": (8, 8)}),
                                   ({"ep": 2}, 16, {"ep": (4, 4), "tp": (8, 2)})):
        made = netsim.read_workload(path, scale=options)[0]
        assert made.ranks == ranks
        found = {each.group: each.members.shape for each in made.operations.families
                 if each.kind != "send"}
        assert found == groups
    direct = netsim.read_workload(write(tmp_path, simai(rows, tp=2, ep=2, pp=2, gpus=64,
                                                   more="pp_comm: 9"), "d.txt"))
    grown = netsim.read_workload(path, scale={"dp": 4})
    assert [one.members.tolist() for one in direct[0].operations.families] == [
        one.members.tolist() for one in grown[0].operations.families]
    for group in ("tp", "pp"):
        with pytest.raises(InputError, match=f"{group} cannot grow"):
            netsim.read_workload(path, scale={group: 2})
    with pytest.raises(UnknownNameError):
        netsim.read_workload(path, scale={"cp": 2})
    with pytest.raises(TraceError, match="ep = 6 does not divide dp = 4"):
        netsim.read_workload(path, scale={"ep": 3})


# --- what is wrong with a file ------------------------------------------------------------------

@pytest.mark.parametrize(("text", "problem"), [
    ("DATA\n1\n" + GOOD, "1: policy 'DATA' is not supported"),
    ("HYBRID_TRANSFORMER all_gpus: x\n1\n" + GOOD, "1: all_gpus must be .* not 'x'"),
    ("HYBRID_TRANSFORMER all_gpus:", "1: all_gpus has no value"),
    ("HYBRID_TRANSFORMER all_gpus: 2", "2: the number of layers is missing"),
    ("HYBRID_TRANSFORMER all_gpus: 2\n0", "2: the number of layers must be"),
    (simai([GOOD, GOOD + " x"], gpus=2), "4: 2 layers are announced"),
    (simai([GOOD.replace("NONE", "ALLREDUCEALLTOALL", 1)], gpus=2), "3: .*of no group"),
    (simai([GOOD.replace(" 1 ", " -1 ", 1)], gpus=2), "3: layer 0 .a., forward"),
    (simai([GOOD], gpus=2, more="checkpoints: 1 7"), "1: checkpoints names layer 7"),
    (simai([GOOD], gpus=10**9), "above the limit of 200,000 ranks"),
    (simai([GOOD], gpus=2, pp=2, more="pp_comm: 1 ga: 999999999"), "limit of 500,000 steps"),
    (simai([GOOD]), "the file does not say all_gpus; give gpus"),
    (simai([GOOD], gpus=6, tp=4), "6 is not 4 x 1 x dp"),
    (simai([GOOD], gpus=6, ep=4), "ep = 4 does not divide dp = 6"),
])
def test_bad_files(tmp_path, text, problem):
    with pytest.raises(TraceError, match=rf"w\.txt:.*{problem}"):
        netsim.read_workload(write(tmp_path, text), format="simai")


def test_what_is_no_collective_is_skipped_unless_strict(tmp_path):
    path = write(tmp_path, simai([GOOD.replace("NONE", "BROADCAST", 1)], gpus=2))
    with pytest.warns(NetsimWarning, match=r"layer 0 \(a\), forward: 'BROADCAST' is no collective"):
        netsim.read_workload(path)
    with pytest.raises(TraceError, match="'BROADCAST' is no collective"):
        netsim.read_workload(path, strict=True)
    path = write(tmp_path, simai([GOOD], gpus=2, pp=2))
    with pytest.warns(NetsimWarning, match="pp = 2, and pp_comm = 0"):
        netsim.read_workload(path)
    path = write(tmp_path, simai([GOOD], gpus=2, more="pp_comm: 7"))
    with pytest.warns(NetsimWarning, match="pp = 1, and pp_comm = 7"):
        netsim.read_workload(path)


def test_collectives_of_no_bytes_and_groups_of_one_take_no_time(tmp_path):
    """But for the computations of 1 + 1 + 1 ns."""
    path = write(tmp_path, simai([layer("a", (1, "ALLREDUCE", 0), (1, "ALLTOALL_EP", MB),
                                        (1, "ALLREDUCE", 0))], tp=2, gpus=4))
    assert took(path) == pytest.approx(3e-9)


@pytest.mark.parametrize(("options", "problem"), [
    ({"simai": "x"}, "simai"), ({"pipeline": "x"}, "pipeline"), ({"gpus": 0}, "gpus"),
    ({"gpus_per_server": 0}, "gpus_per_server"), ({"strict": 1}, "strict"),
    ({"simai": "analytical"}, "rates nvlink and nic"),
    ({"simai": "analytical", "pipeline": "send"}, "is for what is simulated"),
    ({"pipeline": "formula", "nvlink": 1, "nic": 1, "overlap": {"x": 1}}, "overlap"),
    ({"pipeline": "formula", "nvlink": 1, "nic": 1, "overlap": {"tp": 2}}, "a number from 0 to 1"),
    ({"efficiency": ".", "nvlink": 1, "nic": 1}, "nic_ratio.csv"),
])
def test_bad_options(tmp_path, options, problem):
    path = write(tmp_path, simai([GOOD], gpus=2))
    with pytest.raises(InputError, match=problem):
        read_simai(path, **options)


def test_an_experiment_reads_it(tmp_path, capsys):
    write(tmp_path, simai([GOOD], gpus=2))
    path = write(tmp_path, '[network]\nkind = "big-switch"\nhosts = 8\ncapacity = "1GB/s"\n'
                 '[workload]\nfile = "w.txt"\nscale = {dp = 4}\n', "e.toml")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path)])
    assert not ended.value.code
    assert "1 of 1" in capsys.readouterr().out
