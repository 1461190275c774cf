"""The groups of ranks that communicate, as Megatron's `RankGenerator` forms them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.llm.setup import TrainingSetup

Ints = NDArray[np.int64]


class Grid(NamedTuple):
    """The rank at each coordinate of a setup, for routed experts and for all else."""

    dense: Ints  #: shape (pp, dp, cp, tp); for all but routed experts
    expert: Ints  #: shape (pp, dp cp/ep, ep, tp); for routed experts

    @classmethod
    def of(cls, setup: TrainingSetup) -> Grid:
        """Number the ranks of a setup."""
        return cls.make(setup.tp, setup.cp, setup.ep, setup.dp, setup.pp, setup.order)

    @classmethod
    def make(cls, tp: int, cp: int, ep: int, dp: int, pp: int, order: str) -> Grid:
        """Number ranks in an order, one of `ORDERS`."""
        dense, expert = (dp, cp, tp), (dp * cp // ep, ep, tp)
        ranks = np.arange(tp * cp * dp * pp)
        if order.endswith("pp"):
            return cls(ranks.reshape(pp, *dense), ranks.reshape(pp, *expert))
        # dp, or dp cp/ep, is the slowest.
        return cls(*(ranks.reshape(shape[0], pp, *shape[1:]).swapaxes(0, 1)
                     for shape in (dense, expert)))

    def stage(self, stage: int) -> Ints:
        """Return the ranks of a stage of the pipeline, in order of their coordinates."""
        return self.dense[stage].ravel()

    def of_stage(self, kind: str, stage: int) -> Ints:
        """Return the groups of a kind within a stage; shape (groups, members)."""
        _, dp, cp, tp = self.dense.shape
        dense, expert = self.dense[stage], self.expert[stage]
        return {"tp": lambda: dense.reshape(-1, tp),
                "cp": lambda: np.moveaxis(dense, 1, -1).reshape(-1, cp),
                "dp": lambda: np.moveaxis(dense, 0, -1).reshape(-1, dp),
                "dp-cp": lambda: dense.reshape(dp * cp, tp).T,
                "ep": lambda: np.moveaxis(expert, 1, -1).reshape(-1, expert.shape[1]),
                "edp": lambda: np.moveaxis(expert, 0, -1).reshape(-1, expert.shape[0]),
                }[kind]()


def groups_of(grid: Grid) -> dict[str, list[list[int]]]:
    """List all groups of each kind, in order of their first ranks."""
    stages = len(grid.dense)
    pipelines = np.moveaxis(grid.dense, 0, -1).reshape(-1, stages)
    ends = pipelines[:, [0, -1]] if stages > 1 else pipelines
    found = {kind: np.concatenate([grid.of_stage(kind, stage) for stage in range(stages)])
             for kind in ("tp", "cp", "dp", "dp-cp", "ep", "edp")}
    return {name: sorted(np.sort(each, axis=1).tolist())
            for name, each in (found | {"pp": pipelines, "embedding": ends}).items()}
