"""Past jobs, as immutable data, for predictors to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.brief import brief
from netsim.base.values import known_names, same
from netsim.errors import InputError
from netsim.workload.columns import frozen

__all__ = ["UNKNOWN", "History", "group_number", "joined"]

#: The group or the user of a job without one; ids are not negative.
UNKNOWN = -1


@known_names
@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Past jobs, which ended before a workload begins, for predictors to learn from.

    Attributes
    ----------
    group, user : ndarray of int, shape (jobs,)
        Group and user of each job; `UNKNOWN` if it has none. A group that is a name has the number
        `netsim.workload.history.group_number`.
    iterations : ndarray of float, shape (jobs,)
        Number of iterations that each job ran.
    gpu_s : ndarray of float, shape (jobs,), optional
        GPU-seconds that each job ran, if they are known.

    Raises
    ------
    InputError
        If the shapes differ, values are not numbers, or iterations are negative.
    """

    group: Ints
    user: Ints
    iterations: Floats
    gpu_s: Floats | None = None
    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        for name, dtype in (("group", np.int64), ("user", np.int64), ("iterations", np.float64)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        bad = np.flatnonzero(~((self.iterations >= 0) & np.isfinite(self.iterations)))
        if len(bad):
            raise InputError(f"iterations of past job {bad[0]} must be finite and at least 0, not "
                             f"{self.iterations[bad[0]]!r}")
        if not self.group.shape == self.user.shape == self.iterations.shape:
            raise InputError("group, user and iterations of past jobs must have one length, not "
                             f"{len(self.group)}, {len(self.user)} and {len(self.iterations)}")
        if self.gpu_s is not None:
            object.__setattr__(self, "gpu_s", frozen(self.gpu_s, np.float64, "gpu_s"))
            if self.gpu_s.shape != self.iterations.shape or not (self.gpu_s >= 0).all():
                raise InputError("gpu_s of past jobs must be as many numbers as there are jobs, at "
                                 "least 0")

    def __len__(self) -> int:
        return len(self.group)


def group_number(group: int | str | None) -> int:
    """The number by which predictors know a group: a hash of a name, `UNKNOWN` for None."""
    if isinstance(group, str):
        return int.from_bytes(blake2b(group.encode(), digest_size=6).digest())
    return UNKNOWN if group is None else group


def joined(earlier: History, later: History) -> History:
    """Concatenate two histories; GPU-seconds are known if both have them."""
    names = ["group", "user", "iterations"]
    if earlier.gpu_s is not None and later.gpu_s is not None:
        names.append("gpu_s")
    return History(*(np.concatenate((getattr(earlier, name), getattr(later, name)))
                     for name in names))
