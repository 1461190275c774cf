"""Measurements for some of Parrot's statements; see ``papers/parrot.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from netsim.allocators import make_allocator
from netsim.allocators.parrot import Parrot
from netsim.analysis.intervals import means_of
from netsim.base.streams import stream
from netsim.fabric.allocation import Allocation, Event, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView
from netsim.llm import llm_job
from netsim.network import big_switch, read_network
from netsim.plots.facets import line_facets
from netsim.plots.style import name_axes
from netsim.results.result import Result
from netsim.simulation.simulation import simulate
from netsim.traces import read_workload
from netsim.workload import JobSpec, Stage, Workload, split_history

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bytes at which Fig. 4 is drawn, and its number of jobs.
_BYTES, _JOBS = (0.0, *10.0 ** np.arange(2, 13), 1e20), 5

#: Shares of jobs at which distributions are compared, and JCTs of which the share below is kept.
_QUANTILES = np.arange(1, 20) / 20
_SECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

_SCHEMES = ("parrot", "aalo-lbsf", "lccf")

#: Uses of bandwidth that is left over, by the suffix of a scheme's name.
_LEFT = {"parrot": {"": "backfill", " (work_conservation=per_flow)": "per_flow"},
         "others": {"": "backfill", " (work_conservation=capped)": "capped",
                    " (work_conservation=shared_uniform)": "shared_uniform",
                    " (work_conservation=none)": "none"}}


def timeline(result: Result) -> Mapping[str, float]:
    """Measure the ends of the two jobs of Section 2.5, and the decisions of Parrot."""
    coflows, decisions = result.coflows, result.decisions
    valid = coflows["valid_s"].to_numpy()
    before = coflows.groupby("job")["finish_s"].shift(1).fillna(0.0).to_numpy()
    found = {"ends_s": float(coflows["finish_s"].sum()),
             "second_job_s": float(result.jobs["jct_s"].iloc[1]),
             "early": float((coflows["start_s"].to_numpy() < np.maximum(valid, before)).sum())}
    if "theta" in decisions:
        changed = decisions[decisions["job"] == 1]
        found |= {"theta_first": float(decisions["theta"].iloc[0]),
                  "theta_second": float(changed["theta"].iloc[0]),
                  "inferred_s": float(changed["time_s"].iloc[0])}
    return found


def distribution(result: Result) -> Mapping[str, float]:
    """Summarise the distribution of JCTs: quantiles, and the shares of jobs below some times."""
    jcts = result.jobs["jct_s"].to_numpy()
    return {**{f"jct_q{100 * share:02.0f}_s": float(np.quantile(jcts, share))
               for share in _QUANTILES},
            **{f"below_{seconds}s": float((jcts < seconds).mean()) for seconds in _SECONDS}}


def below_10s(result: Result) -> Mapping[str, float]:
    """The share of jobs whose JCT is below 10 s, which the paper reports for three schemes."""
    return {"below_10s": float((result.jobs["jct_s"] < 10).mean())}


def readings(table: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Compare possible readings of what the paper leaves open with some of its numbers.

    A reading is the largest flow (``length``), the density of arrivals (``arrival_scale``), and the
    use of leftover bandwidth by Parrot (``parrot``), and by Aalo and LCCF (``others``). `table` has
    the runs of ``parrot-fit``, and `numbers` are the ids of rows. A reading has the measured value
    of each row, and ``off``, the mean difference from the numbers: absolute for shares, and
    relative for numbers above 1.
    """
    from netsim.reproductions.ledger import PAPERS

    paper, found = PAPERS["parrot"], []
    rows = [row for row in paper.rows if row.id in numbers]
    table = table.assign(over_lower_bound=table["jct_total_s"] / table["lower_bound_total_s"])
    place = ["workload.length", "workload.arrival_scale"]
    for (length, scale), here in table.groupby(place, sort=False):
        for own, others in product(_LEFT["parrot"], _LEFT["others"]):
            names = {f"parrot{own}": "parrot", f"aalo-lbsf{others}": "aalo-lbsf",
                     f"lccf{others}": "lccf"}
            part = here[here["allocator"].isin(list(names))].replace({"allocator": names})
            values = {row.id: paper.outcome(row, part).value for row in rows}
            off = [abs(values[row.id] - row.number) / max(1, row.number) for row in rows
                   if row.number is not None]
            found.append({"length": length, "arrival_scale": scale, "parrot": _LEFT["parrot"][own],
                          "others": _LEFT["others"][others], **values,
                          "off": float(np.mean(off))})
    return pd.DataFrame(found)


def draw_readings(table: pd.DataFrame, columns: Sequence[str], numbers: Sequence[str]) -> Axes:
    """Draw how far readings are from the paper's numbers, each with its better use by Parrot."""
    del columns
    best = readings(table, numbers).groupby(["length", "arrival_scale", "others"], sort=False)[
        "off"].min().reset_index().assign(seed=0)
    ax = line_facets(means_of(best, ["length", "arrival_scale", "others"], ["off"]), "off",
                     x="length", hue="others", col="arrival_scale")
    name_axes(ax, y="mean difference from the paper")
    return ax


@dataclass
class _AttainedView:
    """The part of a view that `Parrot.theta` reads."""

    job_attained: np.ndarray

    def __len__(self) -> int:
        return len(self.job_attained)


def occupancy(seed: int) -> pd.DataFrame:
    """Compute theta of Eq. 10 against the bytes that five jobs have sent together."""
    return pd.DataFrame([{"bytes": sent, "theta": Parrot().theta(
        _AttainedView(np.full(_JOBS, sent / _JOBS)))} for sent in _BYTES])  # type: ignore[arg-type]


@dataclass
class _ComparedScheme(Allocator):
    """A scheme whose choices are compared with the paper's rule, in the notes of its decisions."""

    scheme: str = "parrot"

    information: ClassVar[Information] = "job-clairvoyant"
    wakes_on: ClassVar[Event] = Event.COFLOW

    def allocate(self, view: FabricView) -> Allocation:
        """Allocate as the scheme does, and note which job is served first."""
        given = make_allocator(self.scheme).allocate(view)
        with np.errstate(divide="ignore", invalid="ignore"):  # before the first coflow has ended
            average = np.where(view.job_completed > 0, view.job_attained / view.job_completed,
                               np.inf)
        key = {"parrot": average, "aalo-lbsf": view.job_attained,
               "lccf": view.job_completed}[self.scheme]
        first = np.lexsort((view.job, view.job_attained, key))[0]
        remaining, share = view.job_ahead_s + view.gamma, _shares(view, given)
        if given.note:
            chosen = given.note["job"]
        else:
            assert given.order is not None  # it serves in order, or says what it served
            chosen = view.job[given.order[0]]
        served = chosen == view.job[first]
        given.note = {"served": served, "moving": bool((share > 0).all()),
                      "right": remaining[first] <= remaining.min() * (1 + 1e-9)}
        return given


def _shares(view: FabricView, given: Allocation) -> np.ndarray:
    """The part of its LP rates that each coflow gets."""
    return np.asarray(given.shares if given.order is None else view.greedy(given.order))


def served_first(seed: int) -> pd.DataFrame:
    """Measure how often each scheme serves first the job that the paper's rule names.

    Shares are of decisions with several jobs, in a row per ``scheme``: ``served``, whose first job
    is the one that the rule names; ``moving``, at which every job has bandwidth; ``right``, at
    which the named job has the least time to go. The row ``random`` is for a job chosen at random.
    """
    jobs, rows = read_workload("parrot-60", seed=seed, jobs=20), []
    for scheme in _SCHEMES:
        decisions = simulate(
            "big-switch-128-10g", jobs, allocator=_ComparedScheme(scheme), observe_interval="10ms",
            record=["decisions"]).decisions
        several = decisions[decisions["jobs"] > 1]
        rows.append({"scheme": scheme, **several[["served", "moving", "right"]].mean()})
        if scheme == "parrot":
            chance = {"scheme": "random", "right": (1 / several["jobs"]).mean()}
    return pd.DataFrame([*rows, chance])


def constant_rates(seed: int) -> pd.DataFrame:
    """Compare the Gammas of drawn coflows with the optimum of the LP O3, by a solver.

    O3 in y = 1/Gamma: maximise y such that V y fits all ports.
    """
    from scipy.optimize import linprog

    rng, off = stream(seed, "coflows"), []
    for _ in range(20):
        volumes = rng.exponential(1e6, (6, 6)) * (rng.random((6, 6)) < 0.5)
        np.fill_diagonal(volumes, 0.0)
        egress, ingress = rng.uniform(0.5e6, 2e6, 6), rng.uniform(0.5e6, 2e6, 6)
        flows = [(int(i), int(j), float(volumes[i, j])) for i, j in np.argwhere(volumes)]
        job = JobSpec(0, stages=[Stage("all", flows)], hosts=range(6), ranks=6)
        done = simulate(big_switch(6, egress=egress.tolist(), ingress=ingress.tolist()), [job],
                        record=["coflows"])
        found = linprog([-1.0], A_ub=[[v] for v in (*volumes.sum(1), *volumes.sum(0))],
                        b_ub=[*egress, *ingress])
        off.append(abs(float(done.coflows["gamma_s"].iloc[0]) * found.x[0] - 1))
    return pd.DataFrame({"difference": [max(off)]})


def model(seed: int) -> pd.DataFrame:
    """Check the paper's model on small jobs: a row per ``check``; times in seconds.

    Jobs send between four machines at 1 MB/s, and times follow by hand from their bytes.
    """
    del seed
    wire = big_switch(4, "1MB/s")
    push = Stage("push", [(0, 1, 3e6)], compute_s=2.0)
    pull = Stage("pull", [(1, 0, 4e6)], compute_s=1.0, after=["push"])
    chain = JobSpec(0, stages=[push, pull], iterations=2)
    computing = JobSpec(1, stages=[Stage("push", [(0, 1, 3e6)], compute_s=100.0)])
    before = JobSpec(0, stages=[
        Stage("long", [(0, 1, 9e6)]),
        Stage("short", [(2, 3, 1e6)], finishes_before=["long"])])
    square, drawn = ({"name": "parameter-server", "servers": 2, "sizes": sizes}
                     for sizes in ("split", "uniform"))
    # Two coflows of a job: on links of their own, and on one link, the shorter a second later.
    apart, late = (JobSpec(0, stages=[
        Stage("first", [(0, 1, first)]), Stage("then", [(src, dst, then)], compute_s=wait)])
        for first, src, dst, then, wait in ((4e6, 2, 3, 3e6, 0.0), (10e6, 0, 1, 2e6, 1.0)))
    barrier = JobSpec(0, stages=[Stage("both", [(0, 1, 2e6), (1, 0, 2e6)])], iterations=3)

    def of(*jobs: JobSpec, scheme: str = "parrot") -> Result:
        return simulate(wire, list(jobs), allocator=scheme, record=["coflows", "flows"])

    def first(*jobs: JobSpec) -> float:
        return float(of(*jobs).jobs["jct_s"].iloc[0])

    redrawn = of(JobSpec(0, pattern=drawn, ranks=4, nbytes=5e6, iterations=5, redraw=True))
    whole = of(JobSpec(0, pattern=square, ranks=4, nbytes=5e6))
    ends = of(before).coflows["finish_s"]
    behind = [_first_worker_s(staleness) for staleness in (0, "unbounded")]
    job = llm_job("llama-7b", pp=4, dp=2, micro_batch=1, global_batch=8)
    pipeline = [float(simulate(big_switch(8, "100Gbps"), [job], allocator=scheme)
                      .jobs["jct_s"][0]) for scheme in ("parrot", "maxmin")]
    return pd.DataFrame([{"check": name, "value": value} for name, value in {
        "alone": max(of(each, scheme=scheme).summary()["jct_total_s"] / least
                     for scheme in _SCHEMES for each, least in ((chain, 20.0), (barrier, 6.0))),
        "servers": read_network("big-switch-128-10g").hosts,
        "flows": float(whole.coflows["width"].iloc[0]),
        "starts before": float(ends.iloc[1] - ends.iloc[0]),
        "sizes": float(redrawn.coflows["bytes"].nunique()),
        "length": float(redrawn.flows["bytes"].max() / 5e6),
        "barrier": float(len(of(barrier).coflows)),
        "computation": first(chain) / (2 * (2 + 3 + 1 + 4)),
        "greedy": first(apart) / 4.0,
        "latest": float(of(late).coflows["finish_s"].iloc[1]) / (1.0 + 2.0),
        "theta_max": Parrot().theta_max,
        "communicating": first(chain, computing) / first(chain),
        "pipeline": pipeline[0] / pipeline[1],
        "asynchronous": behind[1] / behind[0],
        "predicted": _predicted()}.items()])


def _first_worker_s(staleness: int | str) -> float:
    """Simulate when a worker ends beside one that computes for three times as long."""
    pattern = {"name": "parameter-server", "servers": 1, "sizes": "split", "staleness": staleness}
    job = JobSpec(0, pattern=pattern, ranks=3, nbytes=1e6, compute_s=1.0, iterations=8,
                  hosts=range(3))
    done = simulate(big_switch(3, "1GB/s"), [job], stragglers={1: 3},
                    record=["jobs", "computations"])
    if not staleness:
        return float(done.jobs["jct_s"].iloc[0])
    return float(done.computations.groupby("rank")["finish_s"].max().min())


def _predicted() -> float:
    """Simulate the total JCT by predicted remaining time, over that under Parrot."""
    rng = np.random.default_rng(0)
    jobs = Workload([JobSpec(
        k, arrival_s=0.4 * k, pattern={"name": "parameter-server", "servers": 2, "sizes": "split"},
        ranks=4, nbytes=50e6, group=k % 5, iterations=int(2 ** (k % 5 + 1) * rng.uniform(0.8, 1.2)))
        for k in range(100)])
    total = [simulate(
        big_switch(8, "1Gbps"), split_history(jobs, 0.5), allocator=scheme,
        seed=1).summary()["jct_total_s"] for scheme in ("srpt:predictor=mean", "parrot")]
    return float(total[0] / total[1])
