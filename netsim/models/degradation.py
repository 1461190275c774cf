"""How contention degrades the bandwidth of jobs: f(alpha, k) of SJF-BCO, Section 4.1.

Of k jobs that contend for a link of bandwidth b, each sends at b / f(alpha, k). The paper asks two
things of f: that f(alpha, 1) = 1, and that it increases with k. A linear f is its example, and the
cost that Wang et al. measured ("Communication contention aware scheduling of multiple deep learning
training jobs", 2020): k tasks take k b + (k - 1) eta seconds per byte, so that alpha = eta / b.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats
from netsim.base.plugins import Registry, parse_policy
from netsim.base.values import about, as_number, as_share, check_options
from netsim.errors import InputError, NetsimError
from netsim.ties import below

#: A name of `DEGRADATIONS` or ``"module:function"``, also with options, or a function of k.
Degradation = str | Mapping[str, Any] | Callable[..., float]

#: How far f may be from 1 for one job.
_ROUNDING = 1e-9

#: Contenders for which f is computed in advance.
_CONTENDERS = 64


def linear(k: float, alpha: float = 0.0) -> float:
    """Equal shares, and a cost alpha for each other contender: k + alpha (k - 1)."""
    return k + alpha * (k - 1)


def power(k: float, alpha: float = 0.0) -> float:
    """Equal shares, and a cost that grows with contention: k to the power of 1 + alpha."""
    return float(k ** (1 + alpha))


def table(k: float, values: Sequence[float], at: Sequence[float] | None = None) -> float:
    """Measured values, and straight lines between them.

    Below k = 1, f = k; beyond the last value, the last line goes on.

    Parameters
    ----------
    k : float
    values : sequence of float
        What was measured, such as the time of a transfer. All are divided by the first.
    at : sequence of float, optional
        The contention of each value, from 1 on. By default 1, 2, 3, ...

    Raises
    ------
    InputError
        If there are fewer than two values, or `at` does not go with them.
    """
    measured = np.asarray(values, np.float64)
    known = np.arange(1.0, measured.size + 1) if at is None else np.asarray(at, np.float64)
    if not (measured.ndim == 1 and measured.size > 1 and known.shape == measured.shape
            and known[0] == 1 and (np.diff(known) > 0).all()):
        raise InputError(f"a table needs two values or more, and at, if given, a contention for "
                         f"each, increasing from 1; not values = {values!r}, at = {at!r}")
    if k < 1:
        return k
    place = min(int(np.searchsorted(known, k, "right")), measured.size - 1)
    (before, low), (after, high) = zip(known[place - 1:place + 1],
                                       measured[place - 1:place + 1] / measured[0], strict=True)
    return float(low + (high - low) * (k - before) / (after - before))


#: Degradations by name: functions ``f(k, ...)`` of the contention and options, such as alpha.
DEGRADATIONS = Registry("degradation", {
    "linear": "netsim.models.degradation:linear",
    "power": "netsim.models.degradation:power",
    "table": "netsim.models.degradation:table",
})


class Slowdown:
    """f for whole numbers of contenders, tabulated: n of them have k = max(k_min, xi1 n).

    The arguments are those of `netsim.cluster.Contention`. f must be 1 at k = 1, increase, and be
    positive for one job.
    """

    def __init__(self, alpha: float, xi1: float, k_min: float, degradation: Degradation) -> None:
        alpha = as_number(alpha, "alpha", least=0)
        self._k_min = as_number(k_min, "k_min", least=0)
        self._xi1 = as_share(xi1, "xi1")
        with about("degradation"):
            self._name, self._f = _function_of(degradation, alpha)
            self._table = self._tabulated(_CONTENDERS)

    def __call__(self, contenders: ArrayLike) -> Floats:
        """Look up f for arrays of whole numbers of contenders, each at least 1."""
        wanted = np.asarray(contenders, np.int64)
        most = int(wanted.max(initial=0))
        if most >= len(self._table):
            self._table = self._tabulated(2 * most)
        return self._table[wanted]

    def _tabulated(self, most: int) -> Floats:
        """Tabulate f for 0 (NaN, as nobody asks) to `most` contenders, after checking it."""
        k = [float(max(self._k_min, self._xi1 * n)) for n in range(1, most + 1)]
        found = {each: self._at(each) for each in sorted({1.0, *k})}
        if abs(found[1.0] - 1) > _ROUNDING:
            raise InputError(f"degradation {self._name!r} must be 1 for one contender, k = 1, not "
                             f"{found[1.0]:.9g}")
        for (less, low), (more, high) in pairwise(found.items()):
            if below(less, more) and not low < high:
                raise InputError(f"degradation {self._name!r} must increase with the contention k, "
                                 f"but is {low:.9g} at k = {less:g} and {high:.9g} at k = {more:g}")
        if not found[k[0]] > 0:
            raise InputError(f"degradation {self._name!r} must be positive for one job alone, but "
                             f"is {found[k[0]]:.9g} at k = max(k_min, xi1) = {k[0]:g}; raise k_min")
        return np.array([math.nan, *(found[each] for each in k)])

    def _at(self, k: float) -> float:
        """Compute f at a contention; it must be a finite number."""
        try:
            value = float(self._f(k))
        except NetsimError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise InputError(f"degradation {self._name!r} fails at k = {k:g}: "
                             f"{type(error).__name__}: {error}") from error
        if not math.isfinite(value):
            raise InputError(f"degradation {self._name!r} must be finite, not {value} at k = {k:g}")
        return value


def _function_of(given: Degradation, alpha: float) -> tuple[str, Callable[[float], float]]:
    """The name of a degradation, and its function of k alone."""
    options: dict[str, Any] = {}
    taken: Mapping[str, inspect.Parameter]
    if isinstance(given, str | Mapping):
        name, options = parse_policy(given, "degradation")
        function = DEGRADATIONS.resolve(name)
    else:
        name, function = getattr(given, "__name__", type(given).__name__), given
    if not callable(function):
        raise InputError(f"degradation must be a name, or a function of the contention k, not "
                         f"{function!r}")
    try:
        taken = inspect.signature(partial(function, 1.0)).parameters
    except (TypeError, ValueError):  # some compiled functions do not say what they take
        taken = {}
    if "alpha" in taken:
        options = {"alpha": alpha} | options
    elif alpha:
        raise InputError(f"degradation {name!r} has no option alpha, so alpha = {alpha:g} would "
                         "have no effect")
    if taken or options:
        check_options(partial(function, 1.0), options, f"degradation {name!r}")
    return name, partial(function, **options)
