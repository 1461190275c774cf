"""Reproductions of published figures: the claims, the measured values, and the figures."""

from __future__ import annotations

from netsim.base.lazy import loading
from netsim.errors import UnknownNameError
from netsim.reproductions import (
    accuracy_allreduce,
    accuracy_htsim,
    accuracy_m3,
    inter_job,
    joint,
    llm_neighbours,
    preemption,
)
from netsim.reproductions.accuracy import Accuracy
from netsim.reproductions.claims import Claim
from netsim.reproductions.ledger import PAPERS
from netsim.reproductions.reproduction import Measurement, Reproduced, Reproduction

__all__ = ["PAPERS", "REPRODUCTIONS", "Accuracy", "Claim", "Measurement", "Reproduced",
           "Reproduction", "find_reproduction"]

#: All reproductions by name.
REPRODUCTIONS: dict[str, Reproduction | Measurement | Accuracy] = {
    each.name: each for each in (*(each for paper in PAPERS.values()
                                   for each in paper.reproductions.values()),
                                 *joint.FIGURES, *preemption.FIGURES, *llm_neighbours.FIGURES,
                                 *inter_job.FIGURES,
                                 *accuracy_m3.FIGURES, *accuracy_htsim.FIGURES,
                                 *accuracy_allreduce.FIGURES)}


def find_reproduction(name: str) -> Reproduction | Measurement | Accuracy:
    """Look up a reproduction by its name."""
    if name not in REPRODUCTIONS:
        raise UnknownNameError("reproduction", name, REPRODUCTIONS)
    return REPRODUCTIONS[name]


__getattr__ = loading(__name__)
