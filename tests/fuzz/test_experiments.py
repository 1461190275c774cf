"""Damaged experiment files: a run that meets the invariants, or an error that names the file."""

from __future__ import annotations

import copy
import importlib
import json
import shutil
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import Draft, load_experiment, prepare
from netsim.studies.grid import runs_of_experiment
from netsim.studies.run import run_experiment

from .checks import check_folder, check_result, check_workload, flows_of, is_small
from .documents import toml_of
from .harness import LONG, Guard, fuzzed
from .mutations import changed, odd_values

SAMPLES = Path(__file__).parents[2] / "workloads"

ON_NETWORK: dict[str, Any] = {
    "name": "n", "description": "d", "seed": 1, "observe_interval": "10ms", "until": "100s",
    "record": ["jobs", "coflows", "flows", "links", "decisions"], "check": True,
    "network": {"kind": "big-switch", "hosts": 16, "capacity": "10Gbps"},
    "workload": {"format": "synthetic", "jobs": 2, "trace_seed": 1, "iterations": 1,
                 "arrival_scale": 0.01, "length": "10MB", "servers": 2},
    "allocator": {"name": "parrot", "theta_max": 0.6, "work_conservation": "none"},
    "events": [{"at": "1ms", "link": "egress-1", "capacity": "1Gbps"},
               {"at": 2, "link": 3, "capacity": 5e8},
               {"at": "2ms", "kind": "fail", "host": 2, "restart": True},
               {"at": "9ms", "kind": "repair", "host": 2},
               {"at": "1ms", "kind": "degrade", "link": "ingress-0", "factor": 0.5}],
    "stragglers": {"3": 2.0, "5": 1.5},
    "compare": {"allocators": ["parrot", {"name": "lccf"}], "baseline": "lccf"},
    "sweep": {"seeds": 2, "vary": {"network.capacity": ["1Gbps", 2e9], "allocator": ["parrot"]}}}

OF_FILES: dict[str, Any] = {
    "network": {"file": "n.json", "loopback_uses_ports": True}, "allocator": "sebf",
    "workload": {"file": "w.json", "seed": 3}}

ON_LEAF_SPINE: dict[str, Any] = {
    "network": {"kind": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4,
                "oversubscription": 2},
    "workload": {"file": "t.csv", "format": "tiresias", "iterations": 1, "servers_max": 2,
                 "length": "1MB", "arrival_scale": 0.01, "ranks_per_gpu": 1,
                 "poisson_jobs": 3, "poisson_mean": "1s"},
    "allocator": "aalo:queues=3:first_threshold=1MB"}

ON_CLUSTER: dict[str, Any] = {
    "name": "c", "seed": 2, "record": ["jobs"],
    "cluster": {"servers": 3, "gpus": 4, "nic": "10Gbps", "intra": "300GB/s", "seed": 1},
    "workload": {"format": "ring-jobs", "mix": {"1": 2, "4": 2, "6": 1}, "iterations": [3, 9],
                 "compute": ["10ms", "42ms"], "length": "25MB", "estimate": "50ms"},
    "scheduler": {"name": "sjf-bco", "lam": 1.5, "u": 1.0, "search": "improve"},
    "execution": {"name": "rar-contention", "alpha": 0.1, "xi1": 0.5, "xi2": 1e-4, "k_min": 1.0,
                  "time": "continuous"},
    "compare": {"schedulers": ["sjf-bco", "ff:order=by_size", "fifo"]},
    "sweep": {"vary": {"cluster.servers": [3, 4]}}}

ON_FABRIC: dict[str, Any] = {
    "cluster": {"draw_gpus": [2, 4]}, "network": {"kind": "ring", "hosts": 4},
    "workload": {"format": "ring-jobs", "mix": {"2": 2, "4": 1}, "iterations": [1, 2],
                 "length": "1MB"},
    "scheduler": "fifo", "placement": "least-busy-servers:lam=2", "execution": "fabric",
    "allocator": "maxmin", "observe_interval": "1ms"}

RECURRENT: dict[str, Any] = {
    "cluster": {"servers": 8, "gpus": 8},
    "workload": {"format": "recurrent", "jobs": 30, "train": 0.5, "max_gpus": 8},
    "scheduler": {"name": "a-srpt", "predictor": "mean", "tau": 0.5, "comm_heavy": 1.5,
                  "mapping": "heavy-edge", "retrain": "1d"}, "execution": "asrpt"}

ON_GPUS: dict[str, Any] = {
    "record": ["jobs", "computations"], "allocator": "maxmin",
    "network": {"kind": "gpu-cluster", "servers": 2, "gpus": 4, "nvlink": "450GB/s",
                "gpus_per_nic": 1, "rails": 4, "latency": "1us"},
    "workload": {"format": "llm", "tp": 2, "pp": 2, "dp": 2, "ep": 1, "global_batch": 4, "zero": 1,
                 "schedule": "1f1b", "sequence_parallel": True, "overlap_param_gather": True,
                 "recompute": "selective", "bucket_size": 1000, "forward_s": ["1ms", 0.002, 0],
                 "model": {"name": "llama-7b", "layers": 4, "hidden": 64, "heads": 8, "ffn": 64}}}

ON_EDGE: dict[str, Any] = {
    "name": "e", "seed": 3, "record": ["jobs", "chunks", "training", "workers", "servers", "ps"],
    "epsilon": 0.5, "transport": "constant",
    "edge_cloud": {"kind": "edge-servers", "servers": 3, "sizes": {"2": 1, "3": 2}, "types": 2,
                   "ps": 1, "storage": "200GB", "cloud": True, "seed": 1},
    "workload": {"format": "edge-jobs", "jobs": 4, "span": "40h", "in_peaks": 0.6,
                 "peaks": [0.25, 0.65], "peak_width": 0.05, "chunks": [2, 5], "minibatches": 5,
                 "epochs": [2, 6], "compute": ["0.01h", "0.05h"], "update": ["10ms", "100ms"],
                 "gradients": ["30MB", "575MB"], "bandwidth": ["100Mbps", "5Gbps"],
                 "upload": ["1h", "4h"], "cloud_upload": ["10h", "15h"], "slot": "1h",
                 "chunk": "1GB", "gang": 2},
    "scheduler": "a-online", "compare": {"schedulers": ["srtf", "batch:mode=periodic"]}}

ON_EDGE_LINKS: dict[str, Any] = {
    "seed": 3, "transport": {"name": "fabric", "mode": "sync"}, "allocator": "maxmin",
    "observe_interval": "1s",
    "events": [{"at": "2h", "link": "egress-0", "capacity": "1Gbps"}],
    "edge_cloud": {"kind": "edge-servers", "servers": 2, "sizes": {"2": 1}, "types": 1,
                   "edge_links": "10Gbps", "wan": "1Gbps"},
    "workload": {"format": "edge-jobs", "jobs": 2, "span": "9h", "chunks": [2, 3],
                 "minibatches": 2, "epochs": [1, 2], "compute": ["0.01h", "0.05h"]}}

LISTED: dict[str, Any] = {
    "edge_cloud": {"kind": "edge-listed", "workers": [["gpu", "gpu"], ["gpu", "tpu"]],
                   "ps": [1, 2]},
    "workload": {"format": "edge-listed", "jobs": [
        {"arrival_s": "2h", "worker_type": "gpu", "chunks": 3, "compute_s": "1h", "upload_s": "1h"},
        {"id": 7, "worker_type": "tpu", "chunks": 1, "minibatches": 2, "epochs": 2,
         "compute_s": 4, "update_s": 1, "gradient_bytes": "1MB", "bandwidth": "1Gbps",
         "upload_s": [1, 2], "cloud_upload_s": 9, "chunk_bytes": 5, "gang": 1}]},
    "scheduler": "srtf"}

SEVERAL: dict[str, Any] = {
    "seed": 3, "scheduler": "sjf", "placement": "least-busy-servers", "execution": "fabric",
    "network": {"kind": "gpu-cluster", "servers": 2, "gpus": 4}, "cluster": {},
    "workload": [
        {"file": "w.json", "arrival": "1ms"},
        {"llm": {"layers": 4, "hidden": 64, "heads": 8, "ffn": 64, "vocab": 99, "sequence": 8},
         "tp": 2, "dp": 2, "global_batch": 2, "id_offset": 7},
        {"pattern": "all-to-all", "ranks": 3, "nbytes": "1MB", "iterations": 2, "seed": 1}]}

FILES = [ON_NETWORK, OF_FILES, ON_LEAF_SPINE, ON_CLUSTER, ON_FABRIC, RECURRENT, ON_GPUS,
         ON_EDGE, ON_EDGE_LINKS, LISTED, SEVERAL]
KEYS = tuple({key: 0 for table in FILES for name, value in table.items()
              for key in (name, *(value if isinstance(value, dict) else ()))}
             | {key: 0 for entry in (*ON_NETWORK["events"], *SEVERAL["workload"]) for key in entry})

TABLES = ("allocator", "scheduler", "placement", "execution", "transport", "predictor", "baseline",
          "compare", "sweep", "vary", "allocators", "schedulers", "mapping")

INSTANCE = {"hosts": 3, "port_capacity_bytes_per_s": 1e6, "jobs": [
    {"coflows": [[{"src": 0, "dst": 1, "bytes": 5e5}], [{"src": 1, "dst": 2, "bytes": 1e5}]]}]}


def put_files(folder: Path) -> None:
    """Put the files that experiments name in a folder."""
    for name in ("n.json", "w.json"):
        (folder / name).write_text(json.dumps(INSTANCE))
    shutil.copy(SAMPLES / "tiresias-sample.csv", folder / "t.csv")


def is_short(experiment: Experiment) -> bool:
    """Say whether an experiment runs in no time."""
    if experiment.edge_cloud is not None:
        jobs = experiment.jobs
        return (experiment.edge_cloud.on(None).servers <= 20 and len(jobs) <= 20
                and sum(job.chunks for job in jobs) <= 200)
    workload = experiment.workload.built
    check_workload(workload)
    if experiment.cluster is None:
        return is_small(workload)
    cluster = experiment.target
    if len(workload) > 40 or cluster.total > 1000:
        return False
    return experiment.execution is None or experiment.execution.name != "fabric" or sum(
        map(flows_of, workload)) <= 2000


def check(guard: Guard, experiment: Experiment | None, folder: Path, save: bool) -> None:
    """Run an experiment that was accepted, if it is short."""
    if experiment is None or not is_short(experiment):
        return
    resolved = experiment.resolved()
    again = Experiment(**copy.deepcopy(resolved))
    assert again.resolved() == resolved
    result = guard(lambda: run_experiment(experiment), whole=folder, seconds=LONG)
    if result is None:
        return
    check_result(result)
    if save:
        check_folder(result, folder / "result")


@fuzzed(20)
@given(data=st.data())
def test_experiment_files(guard: Guard, part: int, data: st.DataObject) -> None:
    contents = data.draw(toml_of(data.draw(st.sampled_from(FILES)), KEYS))
    with guard.folder() as folder:
        put_files(folder)
        path = folder / "e.toml"
        path.write_bytes(contents)
        experiment = guard(lambda: load_experiment(path), named=path)
        check(guard, experiment, folder, save=data.draw(st.integers(0, 9)) == 0)


#: Names of code, also in disguise.
_CODE = ["evil:Thing", "evil:Thing:a=1", " evil:Thing", "evil:Thing.of", ["evil:Thing"],
         {"name": "evil:Thing"}, 'parrot:theta_max="evil\\u003aThing"',
         'a-srpt:predictor="evil\\u003aThing"', "a-srpt:predictor=evil:Thing",
         {"name": "spjf", "predictor": {"name": "evil:Thing"}}, "a-srpt:predictor='evil:Thing'",
         {"allocators": ["evil:Thing"]}, {"baseline": "evil:Thing"}, "evil"]


class LoadedError(BaseException):
    """Code was loaded that was not to be."""


@fuzzed(3)
@given(data=st.data())
def test_no_code_is_loaded_without_plugins(guard: Guard, part: int, monkeypatch,
                                           data: st.DataObject) -> None:
    """Wherever an experiment file names it."""
    def load(name: str) -> Any:
        if name.strip().startswith("evil"):
            raise LoadedError(name)
        return importlib.import_module(name)

    monkeypatch.setattr("netsim.base.plugins.importlib", SimpleNamespace(import_module=load))
    keys = data.draw(changed(data.draw(st.sampled_from(FILES)), (*KEYS, *TABLES),
                             st.sampled_from(_CODE)))
    draft = Draft(keys, plugins=False)
    guard(draft.build)
    guard(lambda: runs_of_experiment(*prepare(draft, None, None)))


#: Values that no file has.
_OF_PYTHON = [len, b"x", 1j, (1, 2), range(3), Fraction(1, 2), Decimal("1e400"), np.float64(2),
              np.int64(3), float, Path("w.json"), {1}]


@fuzzed(4)
@given(data=st.data())
def test_experiments_in_python(guard: Guard, part: int, data: st.DataObject) -> None:
    """Keys as keywords, whose values may be of any kind."""
    keys = data.draw(changed(data.draw(st.sampled_from([ON_NETWORK, ON_CLUSTER, ON_EDGE])), KEYS,
                             odd_values | st.sampled_from(_OF_PYTHON)))
    with guard.folder() as folder:
        experiment = guard(lambda: Experiment(**{str(key): keys[key] for key in keys}))
        check(guard, experiment, folder, save=False)
