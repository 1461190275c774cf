"""What a policy that lets one job go first may say once, for the fabric to decide on by itself."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.errors import AllocationError
from netsim.fabric.kernels import turns

__all__ = ["Turns"]

_BY = {"average": turns.AVERAGE, "attained": turns.ATTAINED, "completed": turns.COMPLETED,
       "ahead": turns.AHEAD}
_REST = {"none": turns.NONE, "uniform": turns.UNIFORM, "backfill": turns.BACKFILL,
         "greedy": turns.GREEDY, "capped": turns.CAPPED, "shared_uniform": turns.SHARED_UNIFORM}


@dataclass(frozen=True, slots=True)
class Turns:
    """One job first, the others behind it, decided anew whenever a coflow comes or ends.

    Each job has one coflow at a time. The jobs are in order of a key, then of the bytes that they
    have sent, then of arrival and id.

    Parameters
    ----------
    by : {"average", "attained", "completed", "ahead"}
        The key: bytes sent per completed coflow (Parrot's A_m), bytes sent, completed coflows, or
        the seconds that the job would still take alone, whatever it has sent.
        With ``"average"`` the first job gets the share theta of Parrot's Eq. 10 and each other an
        equal part of 1 - theta, else the first that needs no dead link gets 1 and the others
        nothing to begin with.
    rest : {"none", "uniform", "backfill", "greedy", "capped", "shared_uniform"}
        What becomes of what is left; see ``work_conservation`` of `netsim.allocators.parrot.Parrot`
        and `netsim.allocators.first.serve_first`.
    most : float
        Theta's upper limit.

    Raises
    ------
    AllocationError
        If there is nothing of that name.
    """

    by: str
    rest: str
    most: float = 1.0

    def __post_init__(self) -> None:
        if self.by not in _BY or self.rest not in _REST:
            raise AllocationError(f"there are no turns by {self.by!r} with the rest {self.rest!r}; "
                                  f"choose from: {', '.join(_BY)}; {', '.join(_REST)}")

    @property
    def rule(self) -> tuple[int, int, float]:
        """The same as numbers, for `kernels.turns.decide`."""
        return _BY[self.by], _REST[self.rest], float(self.most)
