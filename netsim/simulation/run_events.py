"""Events of a run, for listeners."""

from __future__ import annotations

from dataclasses import dataclass

from netsim.errors import UnknownNameError

#: What one can listen for.
EVENT_KINDS = ("job-arrived", "job-started", "job-preempted", "job-done", "coflow-valid",
               "coflow-done", "decision", "capacity")


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happens in a run.

    Attributes
    ----------
    kind : str
        ``"job-arrived"``, ``"job-started"`` (the job has sent its first bytes; on a cluster or an
        edge-cloud, it has got GPUs or workers), ``"job-preempted"``, ``"job-done"``,
        ``"coflow-valid"`` (the coflow has become valid), ``"coflow-done"``, ``"decision"`` (of the
        allocator), or ``"capacity"`` (the capacity of a link has changed).
    at_s : float
        Simulated time of the event, in seconds. With an observe interval, the time at which the run
        notices the event.
    job, coflow : int or None
        Ids of the job and the coflow, as in the tables of results.
    link : str or None
        The name of the link whose capacity has changed.
    capacity : float or None
        The capacity of the link from now on, in bytes per second.
    """

    kind: str
    at_s: float
    job: int | None = None
    coflow: int | None = None
    link: str | None = None
    capacity: float | None = None

    def __repr__(self) -> str:
        about = ((name, getattr(self, name)) for name in ("job", "coflow", "link", "capacity"))
        said = "".join(f", {name}={value!r}" for name, value in about if value is not None)
        return f"RunEvent({self.kind!r}, at_s={self.at_s!r}{said})"


def check_kind(kind: str) -> str:
    """Return a kind of event unchanged, after checking that it exists."""
    if not isinstance(kind, str) or kind not in EVENT_KINDS:
        raise UnknownNameError("kind of event", kind, EVENT_KINDS)
    return kind
