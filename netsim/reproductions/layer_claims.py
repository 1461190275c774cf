"""Claims about layers of policies, which factorial studies share: which layer matters, and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product

from netsim.reproductions.claims import SHARE, Claim
from netsim.reproductions.factorial import Factorial
from netsim.reproductions.rules import above

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
