"""All-reduce and send/receive on a DGX H100, compared with times that vidur's authors measured.

A collective is launched once, and then runs as a ring, step by step. Three parameters are fitted to
the all-reduces of 2, 4 and 8 GPUs together: the time of a launch, the latency of a path between two
GPUs, and the part of NVLink's 450 GB/s that payload gets. Messages of two GPUs have launches and
efficiencies of their own, inside a server and across.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from netsim.network import Topology, big_switch
from netsim.network.wired import wired
from netsim.plots.style import (
    add_legend,
    dress,
    log_seconds,
    log_sizes,
    looks,
    name_axes,
    new_figure,
)
from netsim.reproductions.accuracy import (
    Accuracy,
    at_odd_positions,
    errors_by,
    find_file,
    fit_times,
    fitted,
    four_figures,
    refitted_claim,
)
from netsim.reproductions.claims import PLAIN, Claim, Runs, below
from netsim.simulation.simulation import simulate
from netsim.traces.measured import read_vidur
from netsim.workload import JobSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "accuracy-allreduce"

#: Line rates in bytes per second: of NVLink 4 per GPU and direction, and of a NIC of 400 Gbps.
_NVLINK, _NIC = 450e9, 50e9

#: Kinds of points, each with its pattern, line rate and label.
_KINDS = {"all-reduce": ("all-reduce", _NVLINK, "all-reduce"),
          "inside-server": ("send-recv", _NVLINK, "send/receive inside a server"),
          "across-servers": ("send-recv", _NIC, "send/receive across servers")}

#: Mean errors that ASTRA-sim publishes for its all-reduces on as many GPUs.
_ASTRA_SIM = {"2": 0.206, "4": 0.120, "8": 0.097}

#: Longer than any collective takes, in seconds.
_APART_S = 0.1


def network_of(kind: str, gpus: int) -> Topology:
    """Make the network of some GPUs, with the parameters that were fitted for a kind of point."""
    found = fitted(_NAME)
    latency = found["all-reduce"]["latency_s"]
    # Half the latency is of a port; a path has two.
    return wired(big_switch(gpus, _KINDS[kind][1]), latency / 2, found[kind]["efficiency"])


def _read(folder: Path) -> pd.DataFrame:
    """Read both tables; parameters are fitted to the points at odd positions of each."""
    all_reduce, pairs = (read_vidur(find_file(folder, f"h100_dgx/{name}.csv",
                                              f"h100_dgx-{name}.csv"))
                         for name in ("all_reduce", "send_recv"))
    kinds = np.where(pairs["per_server"] == 1, "across-servers", "inside-server")
    points = pd.concat([all_reduce.assign(kind="all-reduce"), pairs.assign(kind=kinds)],
                       ignore_index=True)
    position = points.groupby(["kind", "gpus"]).cumcount()
    return points.assign(fitted=at_odd_positions(int(position.max()) + 1)[position])


def _fit(folder: Path) -> Mapping[str, Mapping[str, float]]:
    """Fit launch l, latency a and efficiency e.

    A ring of n GPUs takes l + 2(n - 1)(a + S/(n e B)), a message l + a + S/(e B), where a is that
    of the rings.
    """
    points = _read(folder)
    points = points[points["fitted"]]
    own = points[points["kind"] == "all-reduce"]
    gpus, sizes = own["gpus"].to_numpy(np.float64), own["bytes"].to_numpy(np.float64)
    steps = 2 * (gpus - 1)
    terms = np.stack([np.ones(len(own)), steps, steps * sizes / gpus / _NVLINK], 1)
    launch, latency, slower = fit_times(terms, own["measured_s"])
    found = {"all-reduce": {"launch_s": launch, "latency_s": latency, "efficiency": 1 / slower}}
    for kind in ("inside-server", "across-servers"):
        own = points[points["kind"] == kind]
        sizes = own["bytes"].to_numpy(np.float64)
        terms = np.stack([np.ones(len(own)), sizes / _KINDS[kind][1]], 1)
        before, slower = fit_times(terms, own["measured_s"])
        found[kind] = {"launch_s": max(before - latency, 0.0), "efficiency": 1 / slower}
    return {kind: {key: four_figures(value) for key, value in each.items()}
            for kind, each in found.items()}


def _simulated(kind: str, gpus: int, sizes: pd.Series) -> np.ndarray:
    """Simulate the time of a collective of each size, one after the other in one run."""
    pattern: dict[str, Any] = {"name": _KINDS[kind][0], "form": "aggregate"}
    if pattern["name"] == "send-recv":
        pattern["pairs"] = [[0, 1]]
    jobs = [JobSpec(k, k * _APART_S, pattern=pattern, ranks=gpus, nbytes=float(nbytes),
                    compute_s=fitted(_NAME)[kind]["launch_s"], hosts=range(gpus))
            for k, nbytes in enumerate(sizes)]
    done = simulate(network_of(kind, gpus), jobs, allocator="maxmin", record=("jobs",))
    return done.jobs.sort_values("job")["jct_s"].to_numpy()


def _compare(folder: Path) -> pd.DataFrame:
    points = _read(folder)
    simulated = np.zeros(len(points))
    for kind, gpus in dict.fromkeys(zip(points["kind"], points["gpus"].tolist(), strict=True)):
        own = ((points["kind"] == kind) & (points["gpus"] == gpus)).to_numpy()
        simulated[own] = _simulated(kind, gpus, points["bytes"][own])
    return points.assign(simulated_s=simulated)


def _summarise(points: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
    shown = points.astype({"gpus": str})
    rings = shown[shown["kind"] == "all-reduce"]
    by_gpus = pd.concat([errors_by(rings, ["gpus"]), errors_by(rings.assign(gpus="all"), ["gpus"])])
    by_gpus["error, ASTRA-sim"] = by_gpus["gpus"].map(_ASTRA_SIM)
    size = np.where(rings["bytes"] < 2**20, "below 1 MiB", "from 1 MiB on")
    return {"all-reduce": by_gpus, "sizes": errors_by(rings.assign(size=size), ["size", "gpus"]),
            "send-recv": errors_by(shown[shown["kind"] != "all-reduce"], ["kind"])}


def _of(gpus: str, runs: Runs) -> pd.Series:
    return runs.of("geometric mean error", table="all-reduce", gpus=gpus)


_CLAIMS = (
    Claim("Geometric mean error of all-reduces, all points that were not fitted", "12 %",
          partial(_of, "all"), below(0.12), percent=True, scale=PLAIN),
    *(Claim(f"Geometric mean error of all-reduces of {gpus} GPUs, below that of ASTRA-sim",
            f"{error:.1%}", partial(_of, gpus), below(error), percent=True, scale=PLAIN)
      for gpus, error in _ASTRA_SIM.items()),
    refitted_claim())


def _draw(points: pd.DataFrame) -> Axes:
    upper, lower = new_figure(4.6).subplots(2)
    _draw_times(upper, {f"all-reduce of {gpus} GPUs": own for gpus, own in
                        points[points["kind"] == "all-reduce"].groupby("gpus")})
    _draw_times(lower, {_KINDS[kind][2]: points[points["kind"] == kind]
                        for kind in ("across-servers", "inside-server")})
    return upper


def _draw_times(ax: Axes, series: Mapping[str, pd.DataFrame]) -> None:
    """Draw measured times as dots and simulated ones as lines."""
    for (label, own), look in zip(series.items(), looks(series).values(), strict=True):
        ax.plot(own["bytes"], own["measured_s"], linestyle="", marker=".", markersize=1.5,
                color=look.colour, alpha=0.5, rasterized=True)  # thousands of them
        ax.plot(own["bytes"], own["simulated_s"], color=look.colour, linestyle=look.dashes,
                linewidth=1.1, label=label)
    ax.set_yscale("log")
    log_seconds(ax.yaxis)
    log_sizes(ax)
    dress(ax, "both")
    name_axes(ax, "size", "time: dots measured,\nlines simulated")
    add_legend(ax)


FIGURES = (Accuracy(_NAME, "all-reduce of 2, 4 and 8 GPUs of a DGX H100, as measured", "vidur",
                    _compare, _summarise, _CLAIMS, _draw, _fit),)
