"""Damaged traces of training: the reader gives a job, or says where it is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.errors import StalledError
from netsim.traces import read_workload
from netsim.traces.training.chakra_file import encode, pack
from netsim.workload import Workload
from tests.traces.chakra_files import VERSION, coll, node
from tests.traces.simai_files import AICB, aicb_stages, layer, simai
from tests.traces.test_kineto import call, collective, kernel, nccl

from .checks import check_result, check_workload, is_small
from .documents import write_json
from .harness import Guard, fuzzed
from .mutations import bombs, changed, damaged

_GROUPS = encode([(1, 90), (2, "groups"), (3, 1), (8, encode([
    (1, '[\'[{"pg_name": "3", "ranks": [0, 1], "pg_desc": "dp"}]\']')]))])

#: Two ranks with nodes of all types.
RANKS = [[_GROUPS, node(0, "COMP", us=3, num_ops=5, tensor_size=7),
          node(1, "COMP", [0], us=2, is_cpu_op=True), coll(2, [1], pg_name="3"),
          coll(3, [2], comm_type=2), node(4, "MEM_LOAD", [3], tensor_size=9),
          node(5, "SEND" if rank == 0 else "RECV", [4], comm_size=500, comm_tag=1,
               **{"comm_dst" if rank == 0 else "comm_src": 1 - rank}),
          node(6, "INVALID", [5], ctrl=[0]), coll(7, [6], comm_type=9)] for rank in range(2)]
FILES = [b"".join(pack(len(each)) + each for each in (VERSION, *nodes)) for nodes in RANKS]

GRAPH = {"workload_name": "w", "workload_graph": [
    {"Id": 4, "Name": "a", "NodeType": 4, "runtime": 3, "is_cpu_op": True, "ctrlDeps": [4]},
    {"Id": 5, "NodeType": 7, "data_deps": [4], "comm_type": 2, "comm_size": 8, "pg_name": "0"},
    {"Id": 6, "NodeType": 5, "data_deps": [5], "comm_size": 8, "comm_dst": 0, "comm_tag": 2},
    {"Id": 7, "NodeType": 6, "comm_size": 8, "comm_src": 0, "comm_tag": 2}]}
MESSAGES = [{"version": "0.0.4"}, {"id": "4", "name": "a", "type": "COMP_NODE", "attr": [
    {"name": "is_cpu_op", "bool_val": True}, {"name": "x", "int64_list": {"values": ["4"]}}]},
    {"id": 5, "type": 7, "dataDeps": ["4"], "attr": [
        {"name": "comm_type", "int64Val": "2"}, {"name": "comm_size", "uint64Val": "8"}]}]
KINETO = {"distributedInfo": {"rank": 0, "world_size": 2, "pg_config": [
    {"pg_name": "0", "ranks": [0, 1]}]}, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 300.5},
    call(0, 0), kernel(5.25, 50, 0), call(3, 1), nccl(60, 10, 1, collective()),
    {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": 4, "dur": 9, "pid": 0,
     "tid": 1, "args": collective("broadcast", 8)},
    call(5, 2), nccl(75, 10, 2, {}), call(7, 9, "cudaDeviceSynchronize", 80), call(95, 3),
    kernel(110, 9, 3, cat="gpu_memcpy"),
    kernel(125, 9, 4, cat="gpu_memset")]}

OPTIONS: dict[str, Any] = {
    "chakra": {"deps": "data+ctrl", "comm_slots": "none", "replay": True, "strict": True,
               "peak_flops": 1e9, "memory_rate": "1GB/s", "iterations": 2, "hosts": [3, 2, 1, 0],
               "groups": "g.json", "layout": {"dp": 2}, "scale": {"dp": 2}, "keep": "input"},
    "kineto": {"copies": True, "cpu": "free", "replay": True, "step": 1, "iterations": 2,
               "others": ["t.json"], "layout": {"dp": 2}, "scale": {"dp": 3}, "keep": "input"},
    "simai": {"gpus": 16, "scale": {"dp": 2}, "keep": "input", "gpus_per_server": 4,
              "pipeline": "formula", "efficiency": ".", "busbw": "busbw.yaml",
              "strict": True, "iterations": 2, "skip_init": False}}

_STEPS = (3000, "ALLGATHER", 9000), (2000, "ALLTOALL_EP", 4000000), (0, "ALLREDUCE_DP_EP", 80)
SIMAI = simai([layer("a", *_STEPS, update=3), layer("embedding_layer", *_STEPS[::-1])], tp=2, ep=2,
              pp=2, gpus=8, policy="HYBRID_TRANSFORMER_FWD_IN_BCKWD",
              more="vpp: 2 ga: 2 pp_comm: 900.0 checkpoints: 1 0 checkpoint_initiates: 1 1")
STAGES = aicb_stages(
    [("all_reduce", "tp_group", 2, 400, "f", ""), ("isend", "pp_group", 1, 9, "f", "send_next"),
     ("barrier", "all", 4, 0, "f", ""), ("all_reduce", "embedding_group", 2, 7, "s", "")],
    [("irecv", "pp_group", 1, 9, "f", "recv_prev"), ("barrier", "all", 4, 0, "f", ""),
     ("all_reduce", "embedding_group", 2, 7, "s", "")])
BUSBW = "w\nTP:\nallreduce,: 300\nalltoall,: null\nPP:\nbusbw: 47.5\n"
RATIOS = f"size{',c' * 12}\n1000,0.4{',' * 11}\n5000000{',0.8' * 12}\n"


def check(workload: Workload | None) -> None:
    """Check a workload that was read, and run it if it is small; ranks may wait in a circle."""
    if workload is None:
        return
    check_workload(workload)
    if is_small(workload):
        try:
            hosts = max(2, workload[0].ranks, *(host + 1 for host in workload[0].hosts or [0]))
            check_result(netsim.simulate(netsim.big_switch(hosts), workload))
        except StalledError as error:
            assert "turn it is not" in str(error)  # noqa: PT017


#: Options that others go with.
NEEDS = {"peak_flops": "memory_rate", "scale": "layout"}


def options_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Draw none or some options, which are right."""
    known = OPTIONS[name]
    return st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4).map(
        lambda names: {key: known[key] for key in names
                       if name == "simai" or NEEDS.get(key, key) in names})


def write_ranks(folder: Path, contents: list[bytes]) -> Path:
    for rank, content in enumerate(contents):
        (folder / f"t.{rank}.et").write_bytes(content)
    (folder / "g.json").write_text('{"3": [1, 0]}')
    return folder / "t.0.et"


@fuzzed(3)
@given(data=st.data())
def test_bytes_of_chakra(guard: Guard, part: int, data: st.DataObject) -> None:
    which = data.draw(st.integers(0, 1))
    contents = [data.draw(damaged(each)) if rank == which else each
                for rank, each in enumerate(FILES)]
    options = data.draw(options_of("chakra"))
    with guard.folder() as folder:
        path = write_ranks(folder, contents)
        check(guard(lambda: read_workload(path, **options), named=folder))


@st.composite
def rank_programs(draw: st.DrawFn) -> list[list[bytes]]:
    """Draw nodes of two ranks: of any type, on any others, with any attributes."""
    ids, small = st.integers(0, 8), st.integers(-1, 4)
    kinds = st.sampled_from(["COMP", "COLL", "COLL", "SEND", "RECV", "MEM_STORE", "METADATA"])
    attributes = st.fixed_dictionaries({}, optional={
        "comm_type": st.integers(-1, 11), "comm_size": small, "comm_dst": small, "comm_src": small,
        "comm_tag": small, "pg_name": st.sampled_from(["", "0", "3", "4"]),
        "is_cpu_op": st.booleans(), "num_ops": small, "tensor_size": small})
    return [[_GROUPS, *(node(draw(ids), draw(kinds), draw(st.lists(ids, max_size=2)),
                             draw(st.integers(0, 5)), **draw(attributes))
                        for _ in range(draw(st.integers(0, 4))))] for _ in range(2)]


@fuzzed(2)
@given(data=st.data())
def test_programs_of_ranks(guard: Guard, part: int, data: st.DataObject) -> None:
    programs = data.draw(rank_programs())
    contents = [b"".join(pack(len(each)) + each for each in (VERSION, *nodes))
                for nodes in programs]
    options = data.draw(options_of("chakra"))
    with guard.folder() as folder:
        path = write_ranks(folder, contents)
        check(guard(lambda: read_workload(path, **options), named=folder))


@fuzzed(2)
@given(data=st.data())
def test_documents_of_chakra(guard: Guard, part: int, data: st.DataObject) -> None:
    documents = data.draw(st.sampled_from([[GRAPH], MESSAGES]))
    made = data.draw(changed(documents, (*GRAPH["workload_graph"][2], "attr", "values")))
    options = data.draw(options_of("chakra"))
    with guard.folder() as folder:
        text = "".join(json.dumps(each, default=str) for each in made)
        (folder / "t.0.json").write_text(text, encoding="utf-8", errors="surrogatepass")
        (folder / "g.json").write_text('{"0": [0]}')
        check(guard(lambda: read_workload(folder / "t.0.json", format="chakra", **options),
                    named=folder))


@fuzzed(3)
@given(data=st.data())
def test_documents_of_kineto(guard: Guard, part: int, data: st.DataObject) -> None:
    made = data.draw(changed(KINETO, (*collective(), "ts", "dur", "cat", "args", "correlation")))
    options = data.draw(options_of("kineto"))
    options["copies"] = "layout" not in options
    with guard.folder() as folder:
        write_json(made, folder / "t.json")
        check(guard(lambda: read_workload(folder / "t.json", format="kineto", **options),
                    named=folder))


@fuzzed(1)
@given(data=st.data())
def test_bytes_of_kineto(guard: Guard, part: int, data: st.DataObject) -> None:
    text = json.dumps(KINETO).encode()
    packed = gzip.compress(text, mtime=0)
    contents = data.draw(st.one_of(damaged(text), damaged(packed), bombs(text)))
    with guard.folder() as folder:
        (folder / "t.json.gz").write_bytes(contents)
        check(guard(lambda: read_workload(folder / "t.json.gz", format="kineto", copies=True),
                    named=folder))


@fuzzed(3)
@given(data=st.data())
def test_bytes_of_simai(guard: Guard, part: int, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([SIMAI, AICB, STAGES])).encode()
    table = data.draw(st.one_of(st.just(RATIOS.encode()), damaged(RATIOS.encode())))
    listed = data.draw(st.one_of(st.just(BUSBW.encode()), damaged(BUSBW.encode())))
    contents = data.draw(damaged(text))
    options = data.draw(options_of("simai"))
    with guard.folder() as folder:
        for name in ("nic", "nvlink", "ata"):
            (folder / f"{name}_ratio.csv").write_bytes(table)
        (folder / "busbw.yaml").write_bytes(listed)
        (folder / "t.txt").write_bytes(contents)
        check(guard(lambda: read_workload(folder / "t.txt", format="simai", nvlink="9GiB/s",
                                          nic="1GiB/s", **options), named=folder))


@fuzzed(2)
@given(data=st.data())
def test_words_of_simai(guard: Guard, part: int, data: st.DataObject) -> None:
    words = [(SIMAI, " "), (AICB, ","), (STAGES, ",")][data.draw(st.integers(0, 2))]
    parts = words[0].split(words[1])
    others = ["0", "1", "7", "-1", "1e9", "NONE", "ALLTOALL", "99999999999999999999", "MICRO", ""]
    for _ in range(data.draw(st.integers(1, 3))):
        parts[data.draw(st.integers(0, len(parts) - 1))] = data.draw(st.sampled_from(others))
    options = data.draw(options_of("simai"))
    with guard.folder() as folder:
        for name in ("nic", "nvlink", "ata"):
            (folder / f"{name}_ratio.csv").write_text(RATIOS)
        (folder / "busbw.yaml").write_text(BUSBW)
        (folder / "t.txt").write_text(words[1].join(parts))
        check(guard(lambda: read_workload(folder / "t.txt", format="simai", nvlink="9GiB/s",
                                          nic="1GiB/s", **options), named=folder))
