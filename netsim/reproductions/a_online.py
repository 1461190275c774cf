"""Measurements for some of A_online's statements; see ``papers/a-online.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim.analysis.usage import edge_utilisation, suspended_jobs
from netsim.edge.edge_cloud import EdgeCloud, EdgeJob
from netsim.edge.files import read_edge_cloud, read_edge_jobs
from netsim.plots.style import add_legend, dress, looks, name_axes, uncover
from netsim.reproductions.reproduction import panels
from netsim.results.result import Result
from netsim.simulation.simulation import simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Hours that a point of the figure over time stands for, and the number of points.
_HOURS, _POINTS = 50, 48

#: Chunks and mini-batches of Table II.
_TABLE_2 = {(27, 58), (115, 58), (60, 58)}


def preempted(result: Result) -> Mapping[str, float]:
    """Count preemptions and migrations, and compute the share of chunks in the cloud.

    Schedulers of whole jobs suspend gangs. ``preempted`` counts each worker of a gang, while the
    column ``preemptions`` of every result counts a gang once. ``preempted_per_chunk`` counts
    displaced chunks.
    """
    summary = result.summary()
    return {"preempted": summary.get("preempted_workers", summary["preemptions"]),
            "preempted_per_chunk": summary["preemptions"] / summary["chunks"],
            "in_cloud": summary["cloud_chunks"] / summary["chunks"],
            "migrated": summary.get("migrations", 0)}


def suspended(result: Result) -> Mapping[str, float]:
    """Count suspensions of jobs, after which no chunk of the job trains, besides `preempted`."""
    return {**preempted(result), "suspended_jobs": suspended_jobs(result)}


def utilisation(result: Result) -> Mapping[str, float]:
    """Compute the highest utilisation of the edge in an hour, and the utilisation over time."""
    share = edge_utilisation(result, _HOURS * 3600.0)["utilisation"].to_numpy()[:_POINTS]
    busy = np.pad(share, (0, _POINTS - len(share)))  # 0 after the last job
    return {"utilisation_peak": float(edge_utilisation(result, "1h")["utilisation"].max()),
            "in_cloud": preempted(result)["in_cloud"],
            **{f"busy_{_HOURS * k}h": float(each) for k, each in enumerate(busy)}}


def draw_utilisation(table: pd.DataFrame, columns: Sequence[str], called: Mapping[str, str]
                     ) -> Axes:
    """Draw the share of workers that train over time, a panel per workload."""
    from matplotlib.ticker import StrMethodFormatter

    del columns
    names = [f"busy_{_HOURS * k}h" for k in range(_POINTS)]

    def draw(workload: str, ax: Axes) -> None:
        here = table[table["workload.name"] == workload].groupby("scheduler")[names].mean()
        shown = {called[str(name)]: row for name, row in here.iterrows() if name in called}
        for label, look in looks(shown, called.values()).items():
            ax.plot((np.arange(_POINTS) + 0.5) * _HOURS, shown[label], label=label,
                    **look.line() | {"marker": ""})
        ax.set(xlim=(0, _POINTS * _HOURS), ylim=(0, 1))
        uncover(ax)
        dress(ax, "both")
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        name_axes(ax, "time (h)", "share of workers that train")
        add_legend(ax)

    return panels({called[name]: name for name in dict.fromkeys(table["workload.name"])}, draw)


# --- the model ------------------------------------------------------------------------------------


def _job(number: int = 0, **options: object) -> EdgeJob:
    """Make a job of one chunk that trains for 4 s, 1 s after its arrival."""
    return EdgeJob(**{"id": number, "worker_type": "a", "compute_s": 4.0, "upload_s": 1.0,
                      "cloud_upload_s": 50.0, **options})  # type: ignore[arg-type]


#: A job of 10 s, and 3 s later one of 2 s.
_LONG_SHORT = (_job(0, compute_s=10.0), _job(1, arrival_s=3.0, compute_s=2.0))


def model(seed: int) -> pd.DataFrame:
    """Check Sections III to VI on small jobs: a row per ``check``, 1 if it is as the paper says."""
    drawn = read_edge_jobs("edge-jobs-300", read_edge_cloud("edge-servers-100", seed=seed),
                           seed=seed)
    cloud = read_edge_cloud("edge-servers-100", seed=seed)
    testbed = read_edge_cloud("edge-testbed-8")
    trained = read_edge_jobs("edge-testbed-30", testbed, seed=seed)
    return pd.DataFrame([{"check": name, "value": float(value)} for name, value in {
        **_of_schedulers(),
        "table 2": sum((job.chunks, job.minibatches) in _TABLE_2 for job in drawn) / len(drawn),
        "ranges": sum(map(_is_in_range, drawn)) / len(drawn),
        "servers": cloud.servers,
        "testbed": (testbed.servers, len(testbed.types), len(trained)) == (8, 2, 30)}.items()])


def _is_in_range(job: EdgeJob) -> bool:
    """Whether all numbers of a job are in the ranges of Section V-A."""
    hour = 3600.0
    return (0.001 * hour <= job.compute_s <= 0.05 * hour and 0.01 <= job.update_s <= 0.1
            and 30e6 <= job.gradient_bytes <= 575e6 and 20 <= job.epochs <= 60
            and 100e6 / 8 <= job.bandwidth <= 5 * 1024e6 / 8
            and 10 * hour <= job.cloud_upload_s <= 15 * hour
            and all(hour <= each <= 4 * hour for each in np.atleast_1d(job.upload_s)))


def _of_schedulers() -> dict[str, float]:
    """Check the schedulers on one or two workers.

    The short job arrives at the worker at 4 s, while the long one has trained since 1 s. It ends at
    6 s, and the long one at 13 s. SRTF suspends the long one already at 3 s, and ends it at 14 s. A
    worker that is half as fast again takes 6.67 s.
    """
    one, two = EdgeCloud([["a"]], ps=1), EdgeCloud([["a", "a"]], cloud=False)
    whole = [_job(0, chunks=4, compute_s=10.0, gang=2),
             _job(1, chunks=2, arrival_s=3.0, compute_s=2.0, gang=2)]
    greedy, srtf = (simulate(one, _LONG_SHORT, scheduler=name) for name in ("a-online", "srtf"))
    gangs = simulate(two, whole, scheduler="tiresias-l").summary()
    faster = simulate(one, [_job(compute_s=10.0)], epsilon=0.5)
    alike = [_job(k, upload_s=1.0, cloud_upload_s=1.0) for k in range(3)]
    duals = simulate(EdgeCloud([["a", "a"]]), alike).summary()
    full = simulate(EdgeCloud([["a"]], storage=10), [
        _job(k, arrival_s=float(at), chunk_bytes=8.0) for k, at in enumerate((0, 4, 5))])
    assert greedy.ps is not None
    assert full.chunks is not None
    return {"preempts": greedy.jobs["finish_s"].tolist() == [13.0, 6.0],
            "gives back": greedy.ps[["job", "start_s"]].to_numpy().tolist() == [
                [0, 1], [1, 4], [0, 6]],
            "remaining time": srtf.jobs["finish_s"].tolist() == [14.0, 6.0],
            "all or nothing": gangs["preempted_workers"] == 2 * gangs["preemptions"] > 0,
            "speed": float(faster.jobs["jct_s"].iloc[0] - 1) / (10 / 1.5),
            "duals": duals["alpha_total_s"] / duals["beta_integral_s"],
            "storage": full.chunks["server"].tolist() == [0, -1, 0]}
