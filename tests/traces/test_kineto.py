"""Profiles of PyTorch, as jobs."""

import gzip
import json
import pickle

import pytest

import netsim
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.traces.training.kineto import NcclKernels
from netsim.traces.training.kineto_events import graph_of, read_kineto_file
from tests.traces.kineto_ends import ends_ns

RECORD = ["jobs", "coflows", "computations"]


def call(at, correlation, name="cudaLaunchKernel", us=2, thread=1):
    return {"ph": "X", "name": name, "ts": at, "dur": us, "cat": "cuda_runtime", "pid": 0,
            "tid": thread, "args": {"correlation": correlation}}


def kernel(at, us, correlation, name="gemm", stream=7, cat="kernel", **args):
    return {"ph": "X", "name": name, "ts": at, "dur": us, "cat": cat, "pid": 0, "tid": stream,
            "args": {"correlation": correlation, "stream": stream, **args}}


def collective(name="allreduce", sent=1000, received=None, dtype="Float", ranks=(0, 1), group="0",
               **others):
    return {"Collective name": name, "In msg nelems": sent,
            "Out msg nelems": sent if received is None else received, "dtype": dtype,
            "Process Group Name": group, "Process Group Ranks": json.dumps(list(ranks)), **others}


def nccl(at, us, correlation, args, stream=20, name="ncclKernel_x"):
    return kernel(at, us, correlation, name, stream, **args)


def step(begin, us=100, args=None):
    """A pass of 50 us on stream 7, then a kernel of NCCL; both launched at the begin."""
    return [call(begin, begin), call(begin, begin + 1), kernel(begin, 50, begin),
            nccl(begin + 50, us, begin + 1, args or collective())]


def write(folder, events, rank=0, ranks=2, name=None, **info):
    path = folder / (name or f"rank{rank}.json")
    document = {"traceEvents": events, "distributedInfo": {
        "rank": rank, "world_size": ranks, **info}}
    text = json.dumps(document).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def run(path, ranks=2, **options):
    workload = netsim.read_workload(path, format="kineto", **options)
    return netsim.simulate(netsim.big_switch(ranks, 1e9), workload, record=RECORD)


# --- times ------------------------------------------------------------------------------------


def test_a_collective_waits_for_all_and_takes_what_the_network_gives(tmp_path):
    """Rank 1 computes for 80 us; 4 kB of two ranks then take 4 us at 1 GB/s, not 100."""
    slower = [call(0, 0), call(0, 1), kernel(0, 80, 0), nccl(80, 30, 1, collective())]
    path = write(tmp_path, step(0), 0)
    write(tmp_path, slower, 1)
    result = run(path, others=["rank1.json"])
    assert (result.coflows[["start_s", "finish_s"]].to_numpy() * 1e6).tolist() == [
        pytest.approx([80, 84])]
    spans = result.computations.set_index(["rank", "stream"])
    assert spans.loc[(0, "stream 20"), "start_s"] * 1e6 == pytest.approx(50)
    assert spans.loc[(0, "stream 20"), "finish_s"] * 1e6 == pytest.approx(84)
    assert run(path, others=["rank1.json"], replay=True).jobs["finish_s"][0] == pytest.approx(
        150e-6)


def test_ranks_without_a_file_are_copies_if_asked_for(tmp_path):
    path = write(tmp_path, step(0, args=collective(ranks=(0, 1, 2))), 0, 3, "x.json.gz")
    with pytest.raises(TraceError, match=r"but rank 1 has no file; .* copies = true"):
        run(path)
    result = run(path, 3, copies=True)
    assert result.jobs["finish_s"][0] * 1e6 == pytest.approx(50 + 4 * 4 / 3)
    apart = write(tmp_path, step(0, args=collective(ranks=(0, 2))), 0, 3)
    with pytest.raises(TraceError, match=r"rank 1 cannot do the same, .* group of event 3"):
        run(apart, copies=True)


def several(ranks):
    """A stream for computation, one for two groups of all ranks, and launches after a wait."""
    everyone = range(ranks)
    back = collective("_allgather_base", 10, 10 * ranks, ranks=everyone[::-1], group="1")
    return [*step(0, args=collective(ranks=everyone)), call(120, 9, "cudaDeviceSynchronize", 32),
            *step(200, args=back), *step(400, 40, collective("barrier", 0, ranks=everyone)),
            call(402, 7), kernel(420, 20, 7, stream=8), *step(600, args=collective(ranks=everyone))]


@pytest.mark.parametrize("options", [{}, {"cpu": "free"}, {"replay": True}])
@pytest.mark.parametrize("net", [netsim.big_switch(4, 1e9, latency="2us"),
                                 netsim.leaf_spine(2, 2, 2, 1e9)], ids=["switch", "spine"])
def test_copies_are_one_program_and_change_no_result(tmp_path, monkeypatch, options, net):
    """Four files with the same events are joined; copies of the first one are not."""
    paths = [write(tmp_path, several(4), rank, 4) for rank in range(4)]
    given = netsim.read_workload(paths[0], format="kineto", iterations=2,
                                 others=[each.name for each in paths[1:]], **options)
    monkeypatch.setattr("netsim.traces.training.kineto.join", None)
    copied = pickle.loads(pickle.dumps(netsim.read_workload(
        paths[0], format="kineto", iterations=2, copies=True, **options)))
    assert len(copied.jobs[0].operations) == len(given.jobs[0].operations)
    once = netsim.simulate(net, copied, record=["jobs", "coflows"])
    assert once.summary()["simulated_ranks"] == 1
    all_ranks = [netsim.simulate(net, each, record=[*RECORD, "flows", "links"], symmetry=False)
                 for each in (given, copied)]
    for name in ("jobs", "coflows", "computations", "flows", "links"):
        assert getattr(all_ranks[0], name).equals(getattr(all_ranks[1], name))
    for name in ("jobs", "coflows"):
        assert getattr(once, name).equals(getattr(all_ranks[0], name))


def test_copies_under_an_order_or_beside_another_job_are_all_simulated(tmp_path):
    """Symmetry is exact on links of the job alone, under max-min sharing."""
    path = write(tmp_path, several(3), 0, 3)
    work = netsim.read_workload(path, format="kineto", copies=True)
    other = netsim.JobSpec(1, hosts=(0, 1), stages=[netsim.Stage("push", [(0, 1, 1e6)])])
    net = netsim.big_switch(3, 1e9)
    for jobs, allocator in ((work.jobs, "fifo"), ([*work.jobs, other], "maxmin")):
        result = netsim.simulate(net, jobs, allocator=allocator)
        assert "simulated_ranks" not in result.summary()


def test_the_host_launches_when_it_did_or_at_once(tmp_path):
    """Kernels of 10 us are launched at 0 and 100, and begin 5 us later."""
    path = write(tmp_path, [call(0, 0), call(100, 1), kernel(5, 10, 0), kernel(105, 10, 1)], 0, 1)
    assert run(path).jobs["finish_s"][0] == pytest.approx(115e-6)
    assert run(path, cpu="free").jobs["finish_s"][0] == pytest.approx(20e-6)


def test_what_the_host_waited_for_moves_what_it_launches_later(tmp_path):
    """It waits from 60 to 152 us for the collective, which ends at 150; then it launches at 160.

    The collective takes 4 us from 50 us on, so that it returns at 62 and launches at 70.
    """
    waits = [call(60, 9, "cudaDeviceSynchronize", 92), call(160, 8), kernel(161, 10, 8)]
    path = write(tmp_path, step(0) + waits)
    trace = read_kineto_file(path)
    graph = graph_of(trace, trace.gpu)
    assert graph.edges["sync"] == 1
    assert max(ends_ns(graph)) == 171_000
    last = run(path, copies=True).computations["finish_s"].max()
    assert last * 1e6 == pytest.approx(60 + 2 + 8 + 1 + 10)


def test_steps_are_cut_out(tmp_path):
    bounds = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "ts": 1000 * k,
               "dur": 900} for k in (1, 2)]
    path = write(tmp_path, [*step(1000), *step(2000), kernel(2200, 7, 2000), *bounds], 0, 2)
    assert run(path, copies=True, replay=True, step=1).jobs["finish_s"][0] == pytest.approx(150e-6)
    assert run(path, copies=True, replay=True, step=2).jobs["finish_s"][0] == pytest.approx(207e-6)
    with pytest.raises(TraceError, match="no step 3; there are: 1, 2"):
        run(path, copies=True, step=3)


def test_times_are_exact_in_nanoseconds(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": '
                    '4458676524670.503, "dur": 0.001, "args": {"stream": 7}}]}')
    with pytest.warns(NetsimWarning, match="rank 0: 1 events have no launch before their start"):
        netsim.read_workload(path, format="kineto")
    event = read_kineto_file(path).gpu[0]
    assert (event.start_ns, event.end_ns) == (4458676524670503, 4458676524670504)


def test_events_that_overlap_on_a_stream_stay_beside_each_other(tmp_path):
    path = write(tmp_path, [call(0, 0), call(1, 1), kernel(0, 50, 0), kernel(10, 50, 1)], 0, 1)
    with pytest.warns(NetsimWarning, match="1 events overlap"):
        assert run(path).jobs["finish_s"][0] == pytest.approx(60e-6)


# --- kernels of NCCL ----------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "kind", "payload"), [
    (collective("_allgather_base", 10, 20, "BFloat16"), "all-gather", 40),
    (collective("reduce_scatter_tensor_coalesced", 20, 10, "Float8_e4m3fn"), "reduce-scatter", 20),
    (collective("all_to_allv", 6, 6, "Long"), "all-to-all", 48),
    (collective("_reduce_oop", 6, 6, "Byte"), "reduce", 6),
    (collective("barrier", 0, 0, "Nothing"), "barrier", 0)])
def test_kernels_say_what_they_transfer(tmp_path, args, kind, payload):
    trace = read_kineto_file(write(tmp_path, step(0, args=args)))
    found = NcclKernels(trace).of(trace.gpu[1])
    assert (found.kind, found.payload, found.members) == (kind, payload, (0, 1))


def test_or_the_record_around_their_launch_does(tmp_path):
    record = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": -1 + 1, "dur": 9,
              "pid": 0, "tid": 1, "args": collective("broadcast", 8)}
    path = write(tmp_path, [record, *step(0, args={"x": 1})])
    trace = read_kineto_file(path)
    assert NcclKernels(trace).of(trace.gpu[1]).kind == "broadcast"


def test_long_lists_of_ranks_are_cut_and_follow_from_others(tmp_path):
    cut = {"Process Group Ranks": "[0, 2, ..., 62]", "Group size": 32}
    strided = collective() | cut | {"Global rank start": 0, "Global rank stride": 2}
    listed = collective(group="7") | cut
    config = [{"pg_name": "7", "ranks": [0, 5]}]
    for args, members in ((strided, tuple(range(0, 64, 2))), (listed, (0, 5))):
        trace = read_kineto_file(write(tmp_path, step(0, args=args), 0, 64, pg_config=config))
        assert NcclKernels(trace).of(trace.gpu[1]).members == members
    path = write(tmp_path, step(0, args=listed), 0, 64)
    with pytest.raises(TraceError, match=r"rank 0: event 3 .*ranks of its group '7' are not known"):
        run(path)


def test_messages_between_two_ranks(tmp_path):
    """4 kB take 4 us."""
    path = write(tmp_path, step(0, args=collective("send")), 0)
    write(tmp_path, step(0, args=collective("recv")), 1)
    result = run(path, others=["rank1.json"])
    assert (result.coflows[["start_s", "finish_s"]].to_numpy() * 1e6).tolist() == [
        pytest.approx([50, 54])]


def test_kernels_that_say_nothing_take_the_recorded_time(tmp_path):
    path = write(tmp_path, step(0, args={"x": 1}), 0, 1)
    with pytest.warns(NetsimWarning, match="1 kernels of NCCL do not say"):
        assert run(path).jobs["finish_s"][0] == pytest.approx(150e-6)


# --- what is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "said"), [
    (collective(dtype="Quarter"), r"event 3 \('ncclKernel_x'\): unknown dtype 'Quarter'"),
    (collective(ranks=(0, 9)), "its group has rank 9, and ranks are from 0 to 1"),
    (collective(ranks=(1,)), "this rank is not in its group"),
    (collective(sent=-1), "In msg nelems must be a whole number of at least 0, not -1")])
def test_impossible_collectives_are_refused(tmp_path, args, said):
    path = write(tmp_path, step(0, args=args))
    with pytest.raises(TraceError, match=f"rank 0: .*{said}") as caught:
        run(path, copies=True)
    assert str(path) in str(caught.value)


def test_ranks_that_differ_are_refused(tmp_path):
    path = write(tmp_path, step(0), 0)
    write(tmp_path, step(0, args=collective(sent=5)), 1)
    with pytest.raises(TraceError, match=r"rank 1: event 3 .* of 20 bytes; on rank 0 .* 4000"):
        run(path, others=["rank1.json"])
    write(tmp_path, step(0), 0, name="again.json")
    with pytest.raises(TraceError, match="is of rank 0, and so is"):
        run(path, others=["again.json"])
    write(tmp_path, step(0), 1, 3)
    with pytest.raises(TraceError, match="job of 3 ranks"):
        run(path, others=["rank1.json"])


def test_a_kernel_that_another_rank_does_not_launch(tmp_path):
    path = write(tmp_path, step(0), 0)
    write(tmp_path, [kernel(0, 5, 1)], 1)
    with pytest.warns(NetsimWarning, match="1 events have no launch"), pytest.raises(
            TraceError, match=r"rank 0: event 3 \('ncclKernel_x'\) is collective 0 of group '0' of "
                              "ranks 0, 1, which rank 1 does not reach"):
        run(path, others=["rank1.json"])


def test_kernels_that_transfer_nothing_take_no_time(tmp_path):
    result = run(write(tmp_path, step(0, args=collective(sent=0))), copies=True)
    assert len(result.coflows) == 1
    assert result.jobs["finish_s"][0] == pytest.approx(50e-6)


@pytest.mark.parametrize(("content", "said"), [
    (gzip.compress(b"[]", mtime=0)[:-3], "damaged gzip: it ends too early, after 19 bytes"),
    (gzip.compress(b"[]" * 99, mtime=0)[:10] + b"?" * 20, "damaged gzip, in bytes 0 to 29"),
    (b"[\n" + b"[" * 200_000,
     "t.json:2: not read as JSON: 200,001 brackets are open at column 200000"),
    (b"[]", "has no events on a GPU among its 0"), (b"3", "no list of traceEvents"),
    (b"\x1f\x8b\x08", "damaged gzip"), (b"[", "not JSON"), (b"\xff", "not UTF-8"),
    (b"[4]", "event 0 must be an object"), (b"[" * 3000, "not read as JSON|not JSON"),
    (b'[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1e30, "dur": 1}]', "event 0 .*ts must be"),
    (b'{"distributedInfo": {"rank": 2, "world_size": 2}, "traceEvents": [{"ph": "X", '
     b'"cat": "kernel", "ts": 1, "dur": 1}]}', "rank must be from 0 to world_size - 1"),
    (b'{"distributedInfo": {"rank": 2}, "traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, '
     b'"dur": 1}]}', "has the rank, 2, but not the number of ranks; add world_size")])
def test_wrong_files_are_refused(tmp_path, content, said):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(TraceError, match=said) as caught:
        run(tmp_path / "t.json")
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(("options", "said"), [
    ({"cpu": "none"}, "cpu 'none'"), ({"copies": 1}, "copies must be true or false"),
    ({"step": -1}, "step"), ({"others": 3}, "others"), ({"iterations": 0}, "iterations")])
def test_options_are_checked(tmp_path, options, said):
    path = write(tmp_path, step(0))
    with pytest.raises(InputError, match=said):
        netsim.read_workload(path, format="kineto", **options)


# --- damaged stamps ---------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"drop_long": True}])
def test_where_no_week_has_most_events_none_is_dropped(tmp_path, options):
    """The median would be that of the damaged one."""
    path = write(tmp_path, [kernel(1, 50, 0), kernel(1e13, 50, 1)], ranks=1)
    with pytest.raises(TraceError, match=r"event 0 .* and event 1 .* begin 116 days apart, and no "
                                         "week has most of the 2 events"):
        netsim.read_workload(path, format="kineto", **options)


@pytest.mark.parametrize(("changes", "said"), [
    ({"dur": 7.45e15}, r"event 3 \('gemm'\): takes 86,227 days, which is more than a week"),
    ({"ts": 7.45e15}, r"event 3 \('gemm'\): begins more than a week away from most other events")])
def test_events_of_more_than_a_week_are_refused_or_dropped(tmp_path, changes, said):
    """Without the event, a pass of 50 us on the only rank is all that is left."""
    events = [call(0, 0), kernel(2, 50, 0), call(60, 1), kernel(70, 9, 1) | changes, call(90, 2)]
    path = write(tmp_path, events, ranks=1)
    with pytest.raises(TraceError, match=said):
        netsim.read_workload(path, format="kineto")
    with pytest.warns(NetsimWarning, match="1 events with damaged times are left out"):
        workload = netsim.read_workload(path, format="kineto", drop_long=True)
    result = netsim.simulate(netsim.big_switch(2), workload)
    assert result.jobs["finish_s"][0] == pytest.approx(52e-6)
