"""Coflows by class, and their slowdowns compared with having the network to themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.lazy import pd
from netsim.base.units import Quantity, parse_bytes
from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.results.summary import spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netsim.results.result import Result

#: Classes by length and width, in the order of the papers' tables: SN, LN, SW and LW.
CLASSES = ("short narrow", "long narrow", "short wide", "long wide")

#: Label of the row for all classes together.
ALL = "all"


@known_names
def classify_coflows(result: Result, *, short: Quantity = "5MB", narrow: int = 50
                     ) -> pd.DataFrame:
    """Classify completed coflows by length and width, and compute their slowdowns.

    The classes are those of Varys (Chowdhury et al., SIGCOMM'14, Section 7) and Aalo.

    Parameters
    ----------
    result : Result
        A result with coflows recorded, as they are by default.
    short : quantity
        A coflow is short if its longest flow has fewer bytes than this, and long otherwise.
    narrow : int
        A coflow is narrow if it has at most this number of flows, and wide otherwise.

    Returns
    -------
    DataFrame
        `Result.coflows` with the additional columns

        slowdown
            CCT divided by gamma, which is the CCT of the coflow alone on the network; at least 1.
            NaN for coflows without bytes.
        class
            Categorical, one of `CLASSES`.

    Raises
    ------
    InputError
        If coflows were not recorded, or a threshold is invalid.

    Examples
    --------
    >>> import netsim
    >>> result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="maxmin")
    >>> netsim.classify_coflows(result)[["cct_s", "gamma_s", "slowdown", "class"]].round(4)
       cct_s  gamma_s  slowdown         class
    0   12.0      6.0    2.0000  short narrow
    1   16.0     12.0    1.3333   long narrow
    2    4.0      2.0    2.0000  short narrow
    3   16.0      8.0    2.0000  short narrow
    """
    coflows = result.coflows.copy()
    least = parse_bytes(short, "short")
    if isinstance(narrow, bool) or not isinstance(narrow, int | np.integer) or narrow < 0:
        raise InputError(f"narrow must be a whole number of flows of at least 0, not {narrow!r}")
    coflows["slowdown"] = coflows["cct_s"] / coflows["gamma_s"].where(coflows["gamma_s"] > 0)
    kinds = (coflows["longest_bytes"] >= least) + 2 * (coflows["width"] > narrow)
    coflows["class"] = pd.Categorical.from_codes(kinds.to_numpy(np.int64), pd.Index(CLASSES))
    return coflows


@known_names
def by_class(result: Result, *, short: Quantity = "5MB", narrow: int = 50) -> pd.DataFrame:
    """Summarise CCTs and slowdowns by class of coflow: a row per class, and one for all.

    Parameters
    ----------
    result, short, narrow
        As for `classify_coflows`.

    Returns
    -------
    DataFrame
        A table with the columns

        class
            One of `CLASSES`, or ``"all"``.
        coflows, share_of_coflows, share_of_bytes
            Number of completed coflows of the class, its share of all completed coflows, and its
            share of their bytes.
        cct_mean_s, cct_p50_s, cct_p95_s, slowdown_mean, slowdown_p95
            Statistics of CCTs and slowdowns. NaN for a class without coflows; slowdowns are also
            NaN for a class whose coflows have no bytes.

    Raises
    ------
    InputError
        As for `classify_coflows`.
    """
    coflows = classify_coflows(result, short=short, narrow=narrow)
    return pd.DataFrame([_row(name, group, coflows) for name, group in each_class(coflows)])


def each_class(coflows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each of `CLASSES` in a classified table, and last `ALL` with all rows."""
    for name in CLASSES:
        yield name, coflows[coflows["class"] == name]
    yield ALL, coflows


def _row(name: str, group: pd.DataFrame, coflows: pd.DataFrame) -> dict[str, Any]:
    """Summarise a class in one row."""
    cct, slowdown = spread(group["cct_s"]), spread(group["slowdown"])
    return {
        "class": name, "coflows": len(group),
        "share_of_coflows": _share(len(group), len(coflows)),
        "share_of_bytes": _share(group["bytes"].sum(), coflows["bytes"].sum()),
        "cct_mean_s": cct["mean"], "cct_p50_s": cct["p50"], "cct_p95_s": cct["p95"],
        "slowdown_mean": slowdown["mean"], "slowdown_p95": slowdown["p95"],
    }


def _share(part: float, whole: float) -> float:
    """Divide a part by the whole; NaN if the whole is 0."""
    return float(part / whole) if whole > 0 else float("nan")
