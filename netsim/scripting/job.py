"""A user's job: coflows that belong together."""

from __future__ import annotations

import math
from collections.abc import Callable


class Job:
    """A job as a group of coflows, for policies that rank jobs; `netsim.Fabric.job` makes it.

    Parameters
    ----------
    end : callable
        Called by `end` with the job.
    weight, group
        As attributes.

    Attributes
    ----------
    index : int
        Its number on the fabric, in order of creation, which breaks ties.
    name : str
    arrival_s, start_s, finish_s : float
        When it was made, sent its first byte, and ended; in seconds, NaN until then.
    submitted, done : int
        The number of coflows that it has submitted, and how many of these have completed.
    nbytes : float
        Bytes of the completed coflows.
    weight : float
        Its priority, by which the weights of its coflows are multiplied.
    group : int, str or None
        A label of jobs that belong together.
    ended : bool
        Whether it has ended, so that no more coflows can be submitted.
    """

    def __init__(self, index: int, name: str, arrival_s: float, end: Callable[[Job], None],
                 weight: float = 1.0, group: int | str | None = None) -> None:
        self._end = end
        self.ended = False
        self.index = index
        self.name = name
        self.weight, self.group = weight, group
        self.arrival_s = arrival_s
        self.start_s = self.finish_s = math.nan
        self.submitted = self.done = 0
        self.nbytes = 0.0

    @property
    def id(self) -> int:
        """Its number, as in the tables of a result."""
        return self.index

    def end(self) -> None:
        """End the job now: it submits no more coflows.

        Raises
        ------
        InputError
            If it has ended already, or one of its coflows is in flight.
        """
        self._end(self)

    def __repr__(self) -> str:
        return f"<Job {self.index} {self.name!r}>"
