"""The evaluation of SJF-BCO (Section 7 of the paper), and its schedules on simulated networks.

The section is read so that contention and overhead take at most 15 % of the time: alpha = 0,
k_min = 0, xi1 = xi2 = 7e-5, and gradients m such that 2m over a NIC's rate is one second. The paper
plots single runs and gives no numbers. Claims with ``"-"`` as the paper's value are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.reproductions.claims import (
    LESS,
    SHARE,
    Claim,
    Runs,
    above_one,
    below_one,
    near,
    positive,
)
from netsim.reproductions.reproduction import Reproduction, panels
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_BASELINES = ("ff", "ls", "rand")
_SMALLEST_FIRST = ("ff", "ls")
_METRICS = {"makespan_s": "makespan", "jct_mean_s": "mean JCT"}
_KAPPAS = (1, 2, 4, 8, 16, 32)
_SERVERS = (10, 12, 14, 16, 18, 20)
_LAMBDAS = (1, 2, 4, 8)

_NETWORKS = {"big-switch-20-10g": "non-blocking switch",
             "leaf-spine-20-4to1-10g": "leaf-spine, 4:1 oversubscribed"}
_ALLOCATORS = {"maxmin": "max-min", "parrot": "Parrot", "aalo": "Aalo",
               "ring-contention": "ring-contention"}
_JOINT = ("sjf-bco", "ff", "ls", "rand", "ff:order=by_size")

_SECTION_7: dict[str, Any] = {
    "cluster": {"servers": 20, "draw_gpus": [4, 8, 16, 32], "nic": "10Gbps", "intra": 1e18},
    "workload": {"name": "sjf-bco-160"}, "record": ["jobs"],
    "execution": {"name": "rar-contention", "k_min": 0, "xi1": 7e-5, "xi2": 7e-5}}


def _within(horizon: int, name: str, order: str = "given") -> str:
    """Return a scheduler with its horizon and order, as given in an experiment."""
    return f"{name}:horizon={horizon}" + ("" if order == "given" else f":order={order}")


def _label(horizon: int, name: str, order: str = "given") -> str:
    """Return the name of the same scheduler in tables."""
    return f"{name} (horizon={horizon}" + (")" if order == "given" else f", order={order})")


def _words(label: str) -> str:
    """Return the name of a scheduler in figures."""
    name, _, options = label.partition(" (")
    return name.upper() + (", smallest first" if "by_size" in options else "")


# --- policies ------------------------------------------------------------------------------


def _policies_claims() -> Iterator[Claim]:
    own = {"scheduler": _label(1200, "sjf-bco")}
    for order, label, paper in (("given", "their order as given", "< 1"),
                               ("by_size", "the smallest first as well", "-")):
        for name in _BASELINES:
            other = {"scheduler": _label(1200, name, order)}
            for metric, what in _METRICS.items():
                yield Claim(f"SJF-BCO's {what} over that of {name.upper()}, {label}", paper,
                            partial(_ratio, own, other, metric), below_one)
    yield Claim("SJF-BCO's makespan is within the ratio of Theorem 5: over that times the least "
                "possible", "<= 1", partial(_of_theorem_5, own["scheduler"]), below_one)


def _ratio(one: dict[str, Any], other: dict[str, Any], metric: str, runs: Runs) -> pd.Series:
    return runs.ratio(one, other, metric)


def _of_theorem_5(scheduler: str, runs: Runs) -> pd.Series:
    return (runs.of("makespan_s", scheduler=scheduler)
            / runs.of("makespan_bound_s", scheduler=scheduler)
            / runs.of("theorem_5", scheduler=scheduler))


def _draw_policies(sweep: Sweep) -> Axes:
    from netsim.plots.facets import bar_facets

    means = sweep.means([*_METRICS, "makespan_bound_s"])
    means = means.assign(scheduler=means["scheduler"].map(_words))
    return panels({what: metric for metric, what in _METRICS.items()},
                  lambda metric, ax: bar_facets(means, metric, ax=ax))


# --- one parameter each --------------------------------------------------------------------


def _kappa_claims() -> Iterator[Claim]:
    for metric, what in _METRICS.items():
        yield Claim(f"The {what} with kappa 1 over that with 32, which packs no job", "-",
                    partial(_ratio, {"kappa": 1}, {"kappa": 32}, metric), above_one)
    yield Claim("The least makespan over kappa from 2 to 16, over that with 32", "-",
                _best_between, below_one)


def _best_between(runs: Runs) -> pd.Series:
    between = pd.DataFrame({kappa: runs.of("makespan_s", kappa=kappa) for kappa in _KAPPAS[1:-1]})
    return between.min(axis=1) / runs.of("makespan_s", kappa=32)


def _servers_claims() -> Iterator[Claim]:
    for name in ("sjf-bco", *_BASELINES):
        scheduler = {"scheduler": _label(1500, name)}
        yield Claim(f"{name.upper()}'s makespan on 20 servers over that on 10", "< 1",
                    partial(_ratio, {**scheduler, "servers": 20}, {**scheduler, "servers": 10},
                            "makespan_s"), below_one)
    for servers in (10, 20):
        own = {"scheduler": _label(1500, "sjf-bco"), "servers": servers}
        for order, names, label, paper in (("given", _BASELINES, "", "< 1"),
                                          ("by_size", _SMALLEST_FIRST, ", smallest first", "-")):
            for name in names:
                other = {"scheduler": _label(1500, name, order), "servers": servers}
                yield Claim(f"SJF-BCO's makespan over that of {name.upper()}{label}, {servers} "
                            "servers", paper, partial(_ratio, own, other, "makespan_s"), below_one)


def _lambda_claims() -> Iterator[Claim]:
    for one, other in ((1, 2), (2, 4), (4, 8)):
        for metric, what in _METRICS.items():
            yield Claim(f"The {what} with lambda {other} over that with {one}, kappa 1", "-",
                        partial(_ratio, {"lam": other}, {"lam": one}, metric), below_one)


def _draw_lines(key: str, sweep: Sweep) -> Axes:
    from netsim.plots.facets import line_facets

    means = sweep.means(list(_METRICS))
    if "scheduler" in means:
        means = means.assign(scheduler=means["scheduler"].map(_words))
    ends = ("", "_low", "_high")
    parts = {what: means[[*sweep.columns, "runs", *(f"{metric}{end}" for end in ends)]].rename(
        columns={f"{metric}{end}": f"time_s{end}" for end in ends})
        for metric, what in _METRICS.items()}
    both = pd.concat(parts, names=["of"]).reset_index("of")
    return line_facets(both, "time_s", x=key, col="of", among={"of": parts})


# --- the schedules on a network ------------------------------------------------------------


def _joint_claims() -> Iterator[Claim]:
    for network, where in _NETWORKS.items():
        for allocator, name in _ALLOCATORS.items():
            place = {"network.name": network, "allocator": allocator}
            for scheduler in ("sjf-bco", "ff"):
                yield Claim(f"The makespan of {scheduler.upper()} over that of its plan, {name}, "
                            f"{where}", "-",
                            partial(_over_plan, scheduler, place), near(1, 0.05))
            yield Claim(f"Pairs of schedulers in the order of their plans, {name}, {where}",
                        "-", partial(_in_order, place), near(1, 0), partly=_mostly, percent=True,
                        scale=SHARE)
            yield Claim(f"SJF-BCO's makespan is below the best other's, {name}, {where}", "-",
                        partial(_ahead, place), positive, percent=True, scale=LESS)


def _mostly(share: float) -> bool:
    return share > 0.5


def _over_plan(scheduler: str, place: dict[str, Any], runs: Runs) -> pd.Series:
    return (runs.of("makespan_s", scheduler=scheduler, **place)
            / runs.of("plan_makespan_s", scheduler=scheduler, **place))


def _by_scheduler(metric: str, place: dict[str, Any], runs: Runs) -> pd.DataFrame:
    return pd.DataFrame({name: runs.of(metric, scheduler=_as_labelled(name), **place)
                         for name in _JOINT})


def _as_labelled(name: str) -> str:
    scheduler, _, option = name.partition(":")
    return f"{scheduler} ({option})" if option else scheduler


def _in_order(place: dict[str, Any], runs: Runs) -> pd.Series:
    """Return the share of pairs of schedulers whose makespans are in the order of their plans."""
    plan, run = (_by_scheduler(metric, place, runs) for metric in ("plan_makespan_s",
                                                                   "makespan_s"))
    pairs = list(combinations(_JOINT, 2))
    kept = [(plan[one] - plan[other]) * (run[one] - run[other]) >= 0 for one, other in pairs]
    return pd.concat(kept, axis=1).mean(axis=1)


def _ahead(place: dict[str, Any], runs: Runs) -> pd.Series:
    run = _by_scheduler("makespan_s", place, runs)
    return 1 - run["sjf-bco"] / run.drop(columns="sjf-bco").min(axis=1)


def _draw_joint(sweep: Sweep) -> Axes:
    from netsim.plots.facets import line_facets

    means = sweep.means(["makespan_s", "plan_makespan_s"])
    # RAND takes so long that the others could not be told apart.
    means = means[means["scheduler"] != "rand"]
    means = means.assign(scheduler=means["scheduler"].map(_words))
    plan = means[means["allocator"] == means["allocator"].iloc[0]].assign(allocator="its plan")
    for end in ("", "_low", "_high"):
        plan[f"makespan_s{end}"] = plan[f"plan_makespan_s{end}"]
    every = pd.concat([means, plan]).replace(
        {"allocator": _ALLOCATORS, "network.name": _NETWORKS}).rename(
        columns={"network.name": "network"})
    return line_facets(every, "makespan_s", x="scheduler", row="network")


# --- all of them ---------------------------------------------------------------------------


def _figure(name: str, title: str, claims: Iterator[Claim], draw: Callable[[Sweep], Axes],
            vary: dict[str, Sequence[Any]], **keys: Any) -> Reproduction:
    return Reproduction(f"sjf-bco-{name}", f"SJF-BCO, Section 7: {title}", {**_SECTION_7, **keys},
                        vary, tuple(claims), draw)


FIGURES = (
    _figure("policies", "makespan and mean JCT of all policies, in both orders",
            _policies_claims(), _draw_policies,
            {"scheduler": [_within(1200, "sjf-bco"),
                           *(_within(1200, name, order) for order in ("given", "by_size")
                             for name in _BASELINES)]}),
    _figure("kappa", "makespan and mean JCT against kappa", _kappa_claims(),
            partial(_draw_lines, "scheduler.kappa"), {"scheduler.kappa": _KAPPAS},
            scheduler={"name": "sjf-bco", "horizon": 1200}),
    _figure("servers", "makespan and mean JCT against the number of servers",
            _servers_claims(), partial(_draw_lines, "cluster.servers"),
            {"cluster.servers": _SERVERS,
             "scheduler": [*(_within(1500, name) for name in ("sjf-bco", *_BASELINES)),
                           *(_within(1500, name, "by_size") for name in _SMALLEST_FIRST)]}),
    _figure("lambda", "makespan and mean JCT against lambda", _lambda_claims(),
            partial(_draw_lines, "scheduler.lam"), {"scheduler.lam": _LAMBDAS},
            scheduler={"name": "sjf-bco", "horizon": 1200, "kappa": 1}),
    _figure("fabric", "its schedules on networks under four allocators", _joint_claims(),
            _draw_joint, {"network.name": list(_NETWORKS), "allocator": list(_ALLOCATORS),
                          "scheduler": _JOINT},
            cluster={"draw_gpus": [4, 8, 16, 32], "nic": "10Gbps", "intra": "300GB/s"},
            network={"name": "big-switch-20-10g"},
            workload={"name": "sjf-bco-160", "iterations": [50, 300], "length": "25MB"},
            execution={"name": "fabric", "time": "continuous"}),
)
