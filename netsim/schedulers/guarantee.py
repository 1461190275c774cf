"""The guarantee of SJF-BCO: the ratio of Theorem 5 and its terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.schedulers.plan import Planner


@dataclass(frozen=True)
class Guarantee:
    """The ratio to the least possible makespan that Theorem 5 claims.

    It is reported but not relied upon. There are counterexamples, since the proof ignores the time
    for which jobs that hold a GPU wait for other GPUs.
    """

    low: float  #: l; estimates are between l and u times the possible running times, l <= 1 <= u
    high: float  #: u
    largest: int  #: n_g, the GPUs of the largest job
    spread: float  #: varphi, the largest ratio of a job's running times in two schedules

    @property
    def ratio(self) -> float:
        """n_g varphi u / l."""
        return self.largest * self.spread * self.high / self.low


def guarantee_of(planner: Planner, scale: float = 1.0) -> Guarantee:
    """Compute the terms of Theorem 5; the planner's estimates have been divided by `scale`."""
    iterations = planner.iterations
    count = np.array([job.iterations for job in planner.jobs])
    seconds: NDArray[np.float64] = planner.estimates * scale * iterations.model.slot / count
    with np.errstate(divide="ignore", invalid="ignore"):  # iterations may take no time
        low, high = (seconds / iterations.most).min(), (seconds / iterations.least).max()
        spread = np.nan_to_num(iterations.most / iterations.least, nan=1.0, posinf=np.inf).max()
    return Guarantee(low=min(1.0, float(low)), high=max(1.0, float(high)),
                     largest=max(job.ranks for job in planner.jobs), spread=float(spread))
