"""Full factorial designs: the influence of each layer of policies on a metric, with claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from netsim.analysis.intervals import explained_variance
from netsim.base.arrays import Floats
from netsim.reproductions.claims import SHARE, Claim, Runs, above


@dataclass(frozen=True)
class Factorial:
    """Runs of all combinations of choices under one condition, by the logarithm of a metric."""

    layers: Mapping[str, Sequence[str]]  #: by column: the choices, the default first
    where: Mapping[str, Any]  #: columns and values that select the condition
    metric: str = "jct_mean_s"  #: column of a time; less is better

    def logs(self, runs: Runs) -> tuple[list[int], Floats]:
        """The seeds and the logarithms, with an axis for seeds and one for each layer."""
        seeds, values = runs.cube(self.metric, self.layers, **self.where)
        return seeds, np.log(values)

    def variance(self, runs: Runs) -> pd.DataFrame:
        """Compute the share of the variance that each layer explains, in a row per seed.

        ``"together"`` is the share of all interactions, and ``"deviation"`` the standard deviation
        of the logarithms.
        """
        seeds, logs = self.logs(runs)
        rows = []
        for cube in logs:
            shares = explained_variance(cube, list(self.layers))
            together = sum(share for which, share in shares.items() if len(which) > 1)
            rows.append([*(shares[layer,] for layer in self.layers), together, cube.std()])
        return pd.DataFrame(rows, seeds, [*self.layers, "together", "deviation"], float)

    def share(self, part: str, runs: Runs) -> pd.Series:
        """A column of `variance`."""
        return self.variance(runs)[part]

    def spread(self, layer: str, best: bool, runs: Runs) -> pd.Series:
        """Divide the metric with a layer's worst choice by that with its best, for each seed.

        Choices in the other layers are those of the combination that is best over all seeds if
        `best`, else the defaults.
        """
        seeds, logs = self.logs(runs)
        chosen: Sequence[Any] = [0] * len(self.layers)
        if best and seeds:
            mean = logs.mean(axis=0)
            chosen = np.unravel_index(mean.argmin(), mean.shape)
        own = tuple(slice(None) if name == layer else place
                    for name, place in zip(self.layers, chosen, strict=True))
        return pd.Series(_range_ratio(logs[:, *own]), seeds)

    def spread_at(self, layer: str, other: str, choice: int, runs: Runs) -> pd.Series:
        """Divide worst by best choice of a layer, given a choice in another layer.

        Choices are compared by geometric means over all further layers.
        """
        seeds, logs = self.logs(runs)
        names = list(self.layers)
        at = np.take(logs, choice, 1 + names.index(other))
        names.remove(other)
        return pd.Series(_range_ratio(_means(at, names, layer)), seeds)

    def over_default(self, layer: str, choice: int, runs: Runs) -> pd.Series:
        """Divide a choice by the default, by geometric means over all other layers."""
        seeds, logs = self.logs(runs)
        means = _means(logs, list(self.layers), layer)
        return pd.Series(np.exp(means[:, choice] - means[:, 0]), seeds)

    def over_others(self, layer: str, choice: int, runs: Runs) -> pd.Series:
        """Divide a choice by the best other choice, for each seed.

        Each choice is combined with the choices in the other layers that are best for it over all
        seeds.
        """
        seeds, logs = self.logs(runs)
        own = np.moveaxis(logs, 1 + list(self.layers).index(layer), 1)
        own = own.reshape(len(seeds), len(self.layers[layer]), -1 if seeds else 1)
        if seeds:
            best = own.mean(axis=0).argmin(axis=1)
            own = np.take_along_axis(own, best[None, :, None], axis=2)
        others = np.delete(own[..., 0], choice, axis=1)
        return pd.Series(np.exp(own[:, choice, 0] - others.min(axis=1)), seeds)


def _means(logs: Floats, names: Sequence[str], layer: str) -> Floats:
    """Average over all layers but one; the result has shape (seeds, choices)."""
    rest = tuple(1 + axis for axis, name in enumerate(names) if name != layer)
    means: Floats = logs.mean(axis=rest)
    return means


def _range_ratio(logs: Floats) -> Floats:
    """Divide the largest by the smallest value of each row, given logarithms."""
    ratios: Floats = np.exp(np.ptp(logs, axis=1))
    return ratios


# --- claims about layers -------------------------------------------------------------------

#: Factorials by the name of their condition.
Conditions = Mapping[str, Factorial]

#: Names of layers that differ from their column.
_CALLED = {"cluster.nic": "network"}

_OTHERS = {"at their best": True, "by default": False}

#: A share that is most of a whole; one that is worth mentioning; a ratio of the worst choice to the
#: best from which on the choice matters.
_MOST, _A_TENTH, MATTERS = above(0.5), above(0.1), above(1.1)


def claims_of_shares(found: Mapping[str, Conditions]) -> Iterator[Claim]:
    """Yield the claims that each layer explains most of the variance, and interactions a tenth.

    `found` has the conditions of each metric by its name.
    """
    for label, conditions in found.items():
        for condition, each in conditions.items():
            for layer in each.layers:
                called = name_of_layer(layer)
                yield Claim(f"The {called} explains most of the variance of the {label}, "
                            f"{condition}", "-", partial(each.share, layer), _MOST,
                            percent=True, scale=SHARE)
            yield Claim(f"Interactions explain a tenth of the variance of the {label}, {condition}",
                        "-", partial(each.share, "together"), _A_TENTH, percent=True,
                        scale=SHARE)


def claims_of_spreads(conditions: Conditions) -> Iterator[Claim]:
    """Yield the claims that each layer's choice matters for mean JCTs, given those of others."""
    for condition, found in conditions.items():
        for (label, best), layer in product(_OTHERS.items(), found.layers):
            called = name_of_layer(layer)
            yield Claim(f"The worst {called}'s mean JCT over the best's is above 1.1, the rest "
                        f"{label}, {condition}", "-", partial(found.spread, layer, best), MATTERS)


def name_of_layer(column: str) -> str:
    """The name of a layer, given the column of its choices."""
    return _CALLED.get(column, column)
