"""Damaged traces: each format's reader gives a well-formed workload, or says where it is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.studies.convert import convert
from netsim.traces import check_trace, read_workload
from netsim.traces.cluster import gpu_v2023_nodes
from netsim.workload import Workload

from .checks import (
    ALLOCATORS,
    SCHEDULERS,
    check_folder,
    check_result,
    check_workload,
    hosts_of,
    is_small,
)
from .documents import toml_of, write_json
from .harness import Guard, fuzzed
from .mutations import changed, damaged

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "workloads"
CLUSTER = HERE.parent / "traces" / "cluster"

#: A file of each format that is a table or a text.
FILES = {"tiresias": SAMPLES / "tiresias-sample.csv",
         "coflow-benchmark": SAMPLES / "coflow-sample.txt",
         "helios": SAMPLES / "helios-sample.csv", "pai-100k": CLUSTER / "pai100k.csv",
         "acme": CLUSTER / "acme.csv", "swf": CLUSTER / "jobs.swf",
         "gpu-v2023": CLUSTER / "pods.csv", "philly": CLUSTER / "philly.json",
         "tiresias-cluster": SAMPLES / "tiresias-sample.csv",
         "flows": HERE.parent / "traces" / "flows.csv"}

#: Small instances in both forms, with every key that there is.
JOBS = {"name": "j", "hosts": 4, "jobs": [
    {"arrival_s": 0.5, "iterations": 2, "name": "a", "compute_s": [0.1, 0], "coflows": [
        [{"src": 0, "dst": 1, "bytes": 5e6}, {"src": 1, "dst": 1, "bytes": 2}], []]},
    {"stages": [
        {"name": "s", "flows": [{"src": 2, "dst": 3, "bytes": 1e6}], "compute_s": 0.2,
         "deadline_s": 9},
        {"name": "t", "after": ["s"]},
        {"name": "u", "flows": [{"src": 3, "dst": 0, "bytes": 7.5}], "finishes_before": ["t"]}]},
    {"stages": [
        {"name": "p", "compute_s": 0.1, "computes_on": [2, 0], "stream": "s",
         "after_previous": ["p"]},
        {"name": "r", "flows": [{"src": 2, "dst": 0, "bytes": 1}], "after": ["p"]}]}]}
COFLOWS = {"hosts": 4, "coflows": [
    {"id": 3, "arrival_s": 1, "weight": 2, "deadline_s": 4, "job": 8,
     "flows": [{"src": 0, "dst": 1, "bytes": 5e6}]},
    {"id": 1, "flows": [{"src": 2, "dst": 3, "bytes": 1}], "starts_after": [3]},
    {"id": 4, "flows": [], "finishes_before": [1]}]}
KEYS = ("name", "hosts", "jobs", "coflows", "stages", "flows", "src", "dst", "bytes", "arrival_s",
        "iterations", "compute_s", "after", "finishes_before", "starts_after", "deadline_s",
        "weight", "id", "job", "computes_on", "stream", "after_previous")

#: Options of some formats, small ones.
OPTIONS: dict[str, dict[str, Any]] = {
    "tiresias": {"iterations": 2, "arrival_scale": 0.1, "length": "1MB", "servers": 2,
                 "servers_max": 3, "redraw": True, "ranks_per_gpu": 1},
    "coflow-benchmark": {"megabyte": "1MiB", "first_port": 0, "arrival_scale": 2, "limit": 3,
                         "chain": 2, "deadline_factor": 0.5, "deadline_rate": "1Gbps"},
    "synthetic": {"jobs": 3, "trace_seed": 1, "iterations": 2, "servers": 1},
    "ring-jobs": {"mix": {"1": 2, "4": 1}, "iterations": [1, 3], "compute": ["1ms", "2ms"],
                  "length": "1MB", "estimate": "50ms"},
    "recurrent": {"jobs": 20, "groups": 1, "users": 2, "single_gpu_share": 0.5,
                  "recurring_share": 0.5, "median_duration": "1min", "tail": 1.0,
                  "mean_interarrival": "1s", "arrivals": "diurnal"},
    "helios": {"failed": True}, "acme": {"failed": True}, "swf": {"failed": True},
    "pai-100k": {},
    "gpu-v2023": {"failed": True}, "philly": {"failed": False}, "tiresias-cluster": {}}
_OF_CLUSTER = {"limit": 5, "train": 0.5, "max_gpus": 8, "arrival_scale": 0.5, "base_nic": "1Gbps",
               "intra": "1GB/s", "gpus_per_server": 4}
_POISSON = {"poisson_jobs": 3, "poisson_mean": "1s"}
for _format in ("recurrent", "helios", "acme", "swf", "pai-100k", "gpu-v2023", "philly",
                "tiresias-cluster"):
    OPTIONS[_format] |= _OF_CLUSTER


def check(workload: Workload | None, data: st.DataObject, folder: Path) -> None:
    """Check a workload that was read, and run it if it is small."""
    if workload is None:
        return
    check_workload(workload)
    if any(job.model is not None for job in workload):
        if len(workload) <= 40 and max(job.ranks for job in workload) <= 64:
            schedulers = [each for each in SCHEDULERS if workload.history or "mean" not in each]
            result = netsim.simulate(netsim.Cluster(servers=8), workload, execution="asrpt",
                                     scheduler=data.draw(st.sampled_from(schedulers)))
            check_result(result)
    elif is_small(workload):
        hosts = max(hosts_of(workload), 2)
        network = netsim.big_switch(hosts, loopback_uses_ports=data.draw(st.booleans()))
        intervals = [0, 0, "100ms"] if is_short(workload) else [0]
        allocator = data.draw(st.sampled_from(ALLOCATORS))
        result = netsim.simulate(network, workload, allocator=allocator,
                                 observe_interval=data.draw(st.sampled_from(intervals)))
        check_result(result)
        if data.draw(st.integers(0, 9)) == 0:
            check_folder(result, folder / "result")


def is_short(workload: Workload) -> bool:
    """Say whether a run with an observation interval is not one of a million intervals."""
    return workload.jobs[-1].arrival_s < 1e3 and all(
        float(stage.flows.nbytes.sum()) < 1e9 for job in workload for stage in job.stages
        if stage.flows is not None) and all(job.nbytes < 1e9 for job in workload)


def options_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Draw options of a format: none, or some that are right, or one that is odd."""
    known = OPTIONS[name] | _POISSON
    some = st.lists(st.sampled_from(sorted(known)), unique=True, max_size=4).map(
        lambda names: {key: known[key] for key in names})
    return st.just({}) | some | some.flatmap(lambda table: changed(table, sorted(known))).map(
        lambda table: {str(key): value for key, value in table.items()
                       if key not in ("source", "format", "self")})


@pytest.mark.parametrize("name", sorted(FILES))
@fuzzed(2)
@given(data=st.data())
def test_traces(guard: Guard, part: int, name: str, data: st.DataObject) -> None:
    contents = data.draw(damaged(FILES[name].read_bytes()))
    with guard.folder() as folder:
        path = folder / f"t{FILES[name].suffix}"
        path.write_bytes(contents)
        workload = guard(lambda: read_workload(path, format=name), named=path)
        check(workload, data, folder)


@fuzzed(3)
@given(data=st.data())
def test_tables_of_pai(guard: Guard, part: int, data: st.DataObject) -> None:
    tables = sorted((CLUSTER / "pai").iterdir())
    broken = data.draw(st.sampled_from(tables))
    contents = data.draw(damaged(broken.read_bytes()))
    instances = data.draw(st.booleans())
    with guard.folder() as folder:
        for table in tables:
            shutil.copy(table, folder)
        (folder / broken.name).write_bytes(contents)
        if data.draw(st.integers(0, 9)) == 0:
            (folder / data.draw(st.sampled_from(tables)).name).unlink()
        workload = guard(lambda: read_workload(folder / "pai_job_table.csv", format="pai",
                                               instances=instances), named=folder)
        check(workload, data, folder)


@fuzzed(0.5)
@given(data=st.data())
def test_lists_of_nodes(guard: Guard, part: int, data: st.DataObject) -> None:
    contents = data.draw(damaged((CLUSTER / "nodes.csv").read_bytes()))
    with guard.folder() as folder:
        (folder / "n.csv").write_bytes(contents)
        nodes = guard(lambda: gpu_v2023_nodes(folder / "n.csv"), named=folder / "n.csv")
        if nodes is not None:
            assert len(nodes) == sum(nodes.sizes().values()) == len(nodes.gpus)


@fuzzed(3)
@given(data=st.data())
def test_json_bytes(guard: Guard, part: int, data: st.DataObject) -> None:
    document = data.draw(st.sampled_from([JOBS, COFLOWS]))
    contents = data.draw(damaged(json.dumps(document, indent=1).encode()))
    with guard.folder() as folder:
        (folder / "t.json").write_bytes(contents)
        workload = guard(lambda: read_workload(folder / "t.json"), named=folder / "t.json")
        check(workload, data, folder)


@fuzzed(6)
@given(data=st.data())
def test_json_documents(guard: Guard, part: int, data: st.DataObject) -> None:
    document = data.draw(changed(data.draw(st.sampled_from([JOBS, COFLOWS])), KEYS))
    with guard.folder() as folder:
        write_json(document, folder / "t.json")
        workload = guard(lambda: read_workload(folder / "t.json"), named=folder / "t.json")
        check(workload, data, folder)


@fuzzed(2)
@given(data=st.data())
def test_philly_documents(guard: Guard, part: int, data: st.DataObject) -> None:
    document = data.draw(changed(json.loads((CLUSTER / "philly.json").read_text()), (
        "status", "vc", "user", "submitted_time", "attempts", "start_time", "end_time", "detail",
        "ip", "gpus")))
    with guard.folder() as folder:
        write_json(document, folder / "t.json")
        workload = guard(lambda: read_workload(folder / "t.json", format="philly"),
                         named=folder / "t.json")
        check(workload, data, folder)


@pytest.mark.parametrize("name", sorted(OPTIONS))
@fuzzed(0.8)
@given(data=st.data())
def test_options(guard: Guard, part: int, name: str, data: st.DataObject) -> None:
    options = data.draw(options_of(name))
    source = FILES.get(name)
    with guard.folder() as folder:
        workload = guard(lambda: read_workload(source, format=name, **options))
        check(workload, data, folder)


@fuzzed(5)
@given(data=st.data())
def test_workload_files(guard: Guard, part: int, data: st.DataObject) -> None:
    """TOML files that name a format and its options."""
    name = data.draw(st.sampled_from(sorted(OPTIONS)))
    table = {"description": "d", "name": "n", "seed": 1, "format": name} | OPTIONS[name]
    if name in FILES:
        table["file"] = f"t{FILES[name].suffix}"
    contents = data.draw(toml_of(table))
    with guard.folder() as folder:
        if name in FILES:
            shutil.copy(FILES[name], folder / str(table["file"]))
        (folder / "w.toml").write_bytes(contents)
        check(guard(lambda: read_workload(folder / "w.toml"), named=folder), data, folder)


@fuzzed(2)
@given(data=st.data())
def test_checks_and_conversions(guard: Guard, part: int, data: st.DataObject) -> None:
    """Of all files it is said what they hold, or what is wrong; nothing is half written."""
    name = data.draw(st.sampled_from(["tiresias", "coflow-benchmark", "json"]))
    valid = json.dumps(JOBS).encode() if name == "json" else FILES[name].read_bytes()
    contents = data.draw(damaged(valid))
    target = data.draw(st.sampled_from(["o.json", "o.txt", "o.xyz", "none/o.json", "t", "é.json"]))
    with guard.folder() as folder:
        path = folder / "t"
        path.write_bytes(contents)
        report = guard(lambda: check_trace(path, format=name), named=path)
        assert report is None or bool(report.facts) != bool(report.problems)
        guard(lambda: convert(path, folder / target, format=name, network="big-switch-20-10g",
                              **{"iterations": 1} if name == "tiresias" else {}), whole=folder)
        if target != "t" and (folder / target).exists():
            read_workload(folder / target)
