"""A_online with wrong estimates: uploads and exchanges share links.

This study is not in the paper, whose delays and rates never change; the column of the paper's
values is ``"-"``. The capacity to the cloud is ample, so that only the links of edge servers are
shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from netsim.reproductions.a_online_setting import NAMES
from netsim.reproductions.claims import Claim, Runs
from netsim.reproductions.reproduction import Reproduction
from netsim.reproductions.rules import above, above_one, below_one
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

#: The fastest links give the same results as constant delays and rates.
_LINKS = ["1Gbps", "10Gbps", "100Gbps", "100Tbps"]
_AMPLE = _LINKS[-1]
_SCHEDULERS = ("a-online", "a-online-e", "cloud-only")
_ALLOCATORS = {"maxmin": "max-min", "sebf": "SEBF"}

_KEYS: dict[str, Any] = {
    "edge_cloud": {"name": "edge-servers-100", "servers": 20, "wan": _AMPLE},
    "workload": {"name": "edge-jobs-300-short", "jobs": 60, "span": "360h", "chunk": "20GB"},
    "transport": "fabric", "record": ["jobs"]}


def _in(scheduler: str, links: str, allocator: str = "maxmin") -> dict[str, Any]:
    return {"scheduler": scheduler, "edge_links": links, "allocator": allocator}


def _ratio(one: dict[str, Any], other: dict[str, Any], runs: Runs) -> pd.Series:
    return runs.ratio(one, other)


def _metric(metric: str, where: dict[str, Any], runs: Runs) -> pd.Series:
    return runs.of(metric, **where)


def _claims() -> Iterator[Claim]:
    for links in _LINKS:
        for other in ("a-online-e", "cloud-only"):
            yield Claim(f"A_online's total JCT over that of {NAMES[other]}, links of {links}", "-",
                        partial(_ratio, _in("a-online", links), _in(other, links)), below_one)
    for links in _LINKS[:-1]:
        yield Claim(f"A_online's total JCT over that with ample links, links of {links}", "-",
                    partial(_ratio, _in("a-online", links), _in("a-online", _AMPLE)), above_one)
        yield Claim(f"Rates over those that A_online expects, links of {links}", "-",
                    partial(_metric, "rate_ratio_mean", _in("a-online", links)), below_one)
        yield Claim(f"Delays over those that A_online expects, links of {links}", "-",
                    partial(_metric, "delay_ratio_mean", _in("a-online", links)), above(1 + 1e-6))
        yield Claim(f"A_online's total JCT under SEBF over that under max-min, links of {links}",
                    "-", partial(_ratio, _in("a-online", links, "sebf"), _in("a-online", links)),
                    below_one)


def _draw(sweep: Sweep) -> Axes:
    from netsim.plots.facets import line_facets

    means = sweep.means(["jct_mean_s"])
    means = means.assign(scheduler=means["scheduler"].map(NAMES),
                         allocator=means["allocator"].map(_ALLOCATORS))
    return line_facets(means, "jct_mean_s", scale="categories", x="edge_cloud.edge_links",
                       hue="scheduler", col="allocator", among={"scheduler": NAMES.values()})


FIGURES = (
    Reproduction("a-online-links", "A_online with exchanges on shared links", _KEYS,
                 {"edge_cloud.edge_links": _LINKS, "allocator": list(_ALLOCATORS),
                  "scheduler": list(_SCHEDULERS)}, tuple(_claims()), _draw),
)
