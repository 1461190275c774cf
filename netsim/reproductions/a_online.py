"""The evaluation of A_online (Section V of the paper): JCTs and competitive ratios.

With the paper's ranges, a chunk trains for 59 hours on average and reaches the cloud after 10 to
15, so that uploads hardly matter and no chunk has a reason to wait. Each figure is therefore shown
a second time with a tenth of the computation, and always with all chunks in the cloud as a further
scheduler. ``"-"`` marks claims that the paper does not make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.reproductions.a_online_setting import (
    BATCHES,
    NAMES,
    SCHEDULERS,
    SETTINGS,
    figure,
    lines,
    metric_of,
    named,
    over_srtf,
    ratio_of,
    under,
)
from netsim.reproductions.claims import LESS, Claim, Runs
from netsim.reproductions.reproduction import Reproduction
from netsim.reproductions.rules import above_one, below, below_one, near, positive
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_JOBS, _SERVERS = (100, 200, 300), (60, 100, 140)

#: Largest reduction of the average JCT in the paper, by baseline.
_UP_TO = {"tiresias-l": 0.35, "srtf": 0.4, BATCHES[0]: 0.5, BATCHES[1]: 0.5}

#: 25 jobs in this time arrive as densely as 300 in 1,800 h.
_SPAN = "150h"


# --- the JCT rate --------------------------------------------------------------------------


def _rate_claims(called: str, values: Sequence[int]) -> Iterator[Claim]:
    """Yield the claims for each number of jobs, or of servers."""
    of_edge = [name for name in NAMES if name not in ("a-online", "a-online-e", "cloud-only")]
    pairs = [("a-online", name) for name in NAMES if name != "a-online"]
    pairs += [("a-online-e", name) for name in of_edge] + [("cloud-only", "srtf")]
    for (setting, title), (own, other), value in product(SETTINGS.items(), pairs, values):
        name = "The cloud alone" if own == "cloud-only" else NAMES[own]
        yield Claim(f"{name}'s total JCT over that of {NAMES[other]}, {value} {called}, {title}",
                    "-" if "cloud-only" in (own, other) else "< 1",
                    partial(ratio_of, under(setting, own, {called: value}),
                            under(setting, other, {called: value})), below_one)
    for (setting, title), (other, most) in product(SETTINGS.items(), _UP_TO.items()):
        yield Claim(f"A_online's average JCT is below that of {NAMES[other]} by up to as much as "
                    f"the paper says, within 5 points, {values[0]} to {values[-1]} {called}, "
                    f"{title}", f"up to {most:.0%}",
                    partial(_largest_gain, setting, other, called, values), near(most, 0.05),
                    sense=positive, percent=True, scale=LESS)


def _largest_gain(setting: str, other: str, called: str, values: Sequence[int], runs: Runs
                ) -> pd.Series:
    """Return the largest reduction of the mean JCT over the values, for each seed."""
    ratios = [ratio_of(under(setting, "a-online", {called: value}),
                       under(setting, other, {called: value}), runs, "jct_mean_s")
              for value in values]
    return 1 - pd.concat(ratios, axis=1).min(axis=1, skipna=False)


def _change(setting: str, own: str, other: str, called: str, values: Sequence[int], runs: Runs
            ) -> pd.Series:
    """Return the ratio of two total JCTs at the last value, over that at the first."""
    first, last = (ratio_of(under(setting, own, {called: value}),
                            under(setting, other, {called: value}), runs)
                   for value in (values[0], values[-1]))
    return last / first


def _jobs_claims() -> Iterator[Claim]:
    yield from _rate_claims("jobs", _JOBS)
    for (setting, title), other in product(SETTINGS.items(), ("srtf", "tiresias-l", "a-online-e")):
        yield Claim(f"A_online's gain over {NAMES[other]} grows with the jobs: the ratio of their "
                    f"total JCTs with {_JOBS[-1]}, over that with {_JOBS[0]}, {title}", "< 1",
                    partial(_change, setting, "a-online", other, "jobs", _JOBS), below_one)


def _servers_claims() -> Iterator[Claim]:
    yield from _rate_claims("servers", _SERVERS)
    rises = {"a-online": True, BATCHES[0]: True, BATCHES[1]: True, "a-online-e": False,
             "tiresias-l": False}
    for (setting, title), (name, up) in product(SETTINGS.items(), rises.items()):
        yield Claim(f"{NAMES[name]}'s JCT rate {'rises' if up else 'falls'} with the servers: "
                    f"with {_SERVERS[-1]} over that with {_SERVERS[0]}, {title}",
                    "> 1" if up else "< 1",
                    partial(_change, setting, name, "srtf", "servers", _SERVERS),
                    above_one if up else below_one)
    for (setting, title), name in product(SETTINGS.items(), ("a-online", "srtf")):
        yield Claim(f"{NAMES[name]}'s total JCT with {_SERVERS[-1]} servers over that with "
                    f"{_SERVERS[0]}, {title}", "-",
                    partial(ratio_of, under(setting, name, {"servers": _SERVERS[-1]}),
                            under(setting, name, {"servers": _SERVERS[0]})), below_one)


def _draw_rates(key: str, sweep: Sweep) -> Axes:
    others = over_srtf(sweep, "jct_total_s", "jct_rate")
    return lines(key, "jct_rate", others)


# --- the competitive ratio -----------------------------------------------------------------


def _ratio_claims(key: str, values: Sequence[Any]) -> Iterator[Claim]:
    called = key.rpartition(".")[2]
    for (setting, title), value in product(SETTINGS.items(), values):
        own, cloud = (under(setting, name, {key: value}) for name in ("a-online", "cloud-only"))
        where = f"{called} {value}, {title}"
        yield Claim(f"A_online's total JCT over the LP bound, the paper's ratio, {where}", "< 1.7",
                    partial(metric_of, "ratio_paper", own), below(1.7))
        if key != "epsilon" or value == 0:  # the LP is no bound for faster workers
            yield Claim(f"The same over the LP bound with half the processing is below 2, {where}",
                        "-", partial(metric_of, "ratio", own), below(2))
        yield Claim(f"A_online's ratio over that of the cloud alone, {where}", "-",
                    partial(ratio_of, own, cloud, metric="ratio_paper"), below_one)
    yield from (_epsilon_claims if key == "epsilon" else _influence_claims)(key, called, values)


def _influence_claims(key: str, called: str, values: Sequence[Any]) -> Iterator[Claim]:
    first, last = values[0], values[-1]
    for setting, title in SETTINGS.items():
        yield Claim(f"The {called} have little influence, within 10 %: A_online's ratio with "
                    f"{last} over that with {first}, {title}", "little influence",
                    partial(_ratio_change, setting, key, last, first), near(1, 0.1))


def _epsilon_claims(key: str, called: str, values: Sequence[Any]) -> Iterator[Claim]:
    for (setting, title), (low, high) in product(SETTINGS.items(), pairwise(values)):
        yield Claim(f"A_online's ratio with {called} {high} over that with {low}, {title}", "< 1",
                    partial(_ratio_change, setting, key, high, low), below_one)
    for setting, title in SETTINGS.items():
        yield Claim(f"A_online's ratio with {called} {values[-1]} is close to 1, within 0.1, "
                    f"{title}", "close to 1",
                    partial(metric_of, "ratio_paper", under(setting, "a-online",
                                                            {key: values[-1]})), near(1, 0.1))


def _ratio_change(setting: str, key: str, one: Any, other: Any, runs: Runs) -> pd.Series:
    """Return the ratio to the LP bound at one value of a key, over that at another value."""
    with_one, with_other = (under(setting, "a-online", {key: value}) for value in (one, other))
    return ratio_of(with_one, with_other, runs, "ratio_paper")


def _draw_ratios(key: str, sweep: Sweep) -> Axes:
    return lines(key, "ratio_paper", named(sweep))


# --- all of them ---------------------------------------------------------------------------


def _ratio_figure(name: str, key: str, values: Sequence[Any], *, jobs: int = 25,
                  servers: int = 25) -> Reproduction:
    return figure(f"ratio-{name}", f"competitive ratio against {name}",
                  _ratio_claims(key, values), partial(_draw_ratios, key),
                  {key: values, "scheduler": ["a-online", "cloud-only"]}, lp_bound="1h",
                  edge_cloud={"name": "edge-servers-100", "servers": servers},
                  workload={"name": "edge-jobs-300", "jobs": jobs, "span": _SPAN})


FIGURES = (
    figure("jobs", "JCT rate against the number of jobs", _jobs_claims(),
           partial(_draw_rates, "workload.jobs"),
           {"workload.jobs": _JOBS, "scheduler": SCHEDULERS}),
    figure("servers", "JCT rate against the number of servers", _servers_claims(),
           partial(_draw_rates, "edge_cloud.servers"),
           {"edge_cloud.servers": _SERVERS, "scheduler": SCHEDULERS}),
    _ratio_figure("jobs", "workload.jobs", [5, 15, 25]),
    _ratio_figure("servers", "edge_cloud.servers", [5, 25, 45]),
    _ratio_figure("epsilon", "epsilon", [0, 0.1, 0.3, 0.5]),
)
