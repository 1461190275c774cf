"""Heavy-Edge compared with optimal mappings: A-SRPT, Table II.

Jobs are random: a model of the catalogue with a random number of stages, on servers each with a
random number of free GPUs. The time to solve is measured too, but no claim depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from netsim.analysis.intervals import means_of
from netsim.models import ParallelModel
from netsim.models.catalogue import make_model, parallel_models
from netsim.models.servers import ServerKind
from netsim.reproductions.claims import SHARE, Claim, Runs
from netsim.reproductions.reproduction import Measurement
from netsim.reproductions.rules import below_one, near
from netsim.streams import stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES", "measure_mappings", "random_job"]

_SERVER = ServerKind(gpus=8, nic=1.25e9, intra=300e9)  # 10 Gbps, 300 GB/s
_GPUS = (4, 8, 16, 32)
_JOBS = 20  # jobs per number of GPUs and seed
_STAGES = (2, 8)  # range of the number of stages
_SHOWN = {"heavy-edge": "Heavy-Edge", "round-robin": "round robin", "random": "random"}

#: Relative tolerance for being as good as the optimum, which the solver knows to 1e-7.
_EQUAL = 1e-6


def random_job(rng: np.random.Generator, gpus: int) -> tuple[ParallelModel, list[int]]:
    """Draw a model with at least two stages, and the GPUs that each server gives it.

    Parameters
    ----------
    rng : Generator
    gpus : int
        GPUs that the model needs, at least 2.
    """
    names = [name for name, least in parallel_models().items() if least <= gpus]
    name = names[rng.integers(len(names))]
    fewest = max(_STAGES[0], parallel_models()[name])
    stages = int(rng.integers(fewest, max(fewest, min(_STAGES[1], gpus)) + 1))
    counts: list[int] = []
    while (left := gpus - sum(counts)):
        counts.append(min(left, int(rng.integers(1, _SERVER.gpus + 1))))
    return make_model(name, gpus, stages=stages), counts


def measure_mappings(seed: int) -> pd.DataFrame:
    """Compare mappings of random jobs with the optimal ones.

    Returns
    -------
    DataFrame
        A row per ``gpus`` and ``mapping``, with the columns ``over_optimum`` (alpha over that of
        the optimum; geometric mean over jobs, as a few are far off), ``worst`` (the largest such
        ratio), ``as_good`` (share of jobs for which it is 1), ``solved`` (share of jobs whose
        optimum is known) and ``took_ms`` (mean time to solve).
    """
    from netsim.models.mapping import MAPPINGS

    rows = []
    for gpus in _GPUS:
        rng = stream(seed, f"mappings-{gpus}")
        jobs = [random_job(rng, gpus) for _ in range(_JOBS)]
        alphas, took, solved = {}, {}, 0.0
        for name in MAPPINGS:
            mapping = MAPPINGS.resolve(name)
            options = {"seed": seed} if name == "random" else {}
            began = perf_counter()
            found = [mapping(*job, _SERVER, **options) for job in jobs]
            took[name] = (perf_counter() - began) / len(jobs) * 1e3
            alphas[name] = np.array([each.alpha_s for each in found])
            if name == "optimal":
                solved = float(np.mean([each.status == "optimal" for each in found]))
        for name, alpha in alphas.items():
            over = alpha / alphas["optimal"]
            rows.append({"gpus": gpus, "mapping": name, "over_optimum": np.exp(np.log(over).mean()),
                         "worst": over.max(), "as_good": np.mean(over < 1 + _EQUAL),
                         "solved": solved, "took_ms": took[name]})
    return pd.DataFrame(rows)


def _of(metric: str, gpus: int, mapping: str, runs: Runs) -> pd.Series:
    return runs.of(metric, gpus=gpus, mapping=mapping)


def _over(gpus: int, other: str, runs: Runs) -> pd.Series:
    return runs.ratio({"gpus": gpus, "mapping": "heavy-edge"}, {"gpus": gpus, "mapping": other},
                      "over_optimum")


def _claims() -> Iterator[Claim]:
    for gpus in _GPUS:
        yield Claim(f"Heavy-Edge's alpha is within 5 % of the optimum's: over it, {gpus} GPUs", "-",
                    partial(_of, "over_optimum", gpus, "heavy-edge"), near(1, 0.05))
    for gpus in _GPUS:
        yield Claim(f"Even the worst job is within 5 %: alpha over the optimum's, {gpus} GPUs", "-",
                    partial(_of, "worst", gpus, "heavy-edge"), near(1, 0.05))
    for gpus in _GPUS:
        yield Claim(f"Jobs for which Heavy-Edge is as good as the optimum, {gpus} GPUs", "-",
                    partial(_of, "as_good", gpus, "heavy-edge"), near(1, 0), percent=True,
                    scale=SHARE)
    for gpus in _GPUS:
        yield Claim(f"Heavy-Edge's alpha over that of random mapping, {gpus} GPUs", "-",
                    partial(_over, gpus, "random"), below_one)


def _draw(table: pd.DataFrame) -> Axes:
    from netsim.plots.facets import line_facets
    from netsim.plots.style import INK

    shown = table[table["mapping"].isin(_SHOWN)].replace({"mapping": _SHOWN})
    shown = shown.rename(columns={"over_optimum": "ratio"})
    means = means_of(shown, ["gpus", "mapping"], ["ratio"])
    ax = line_facets(means, "ratio", scale="categories", x="gpus")
    ax.axhline(1, color=INK, linewidth=0.8, zorder=1)
    ax.set_xlabel("GPUs of a job", fontsize=7.5)
    ax.set_ylabel("time of an iteration / optimum", fontsize=7.5)
    return ax


FIGURES = (
    Measurement("a-srpt-mapping", "A-SRPT, Table II: Heavy-Edge against the best mapping",
                measure_mappings, tuple(_claims()), _draw, unsteady=("took_ms",)),
)
