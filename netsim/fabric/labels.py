"""What jobs are called, for the views of allocators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class JobLabel(NamedTuple):
    """The id, name and group of a job."""

    id: int
    name: str = ""
    group: int | str | None = None


def labels_of(jobs: NDArray[np.int64], job_of: Callable[[int], Any], name: str, dtype: type
              ) -> NDArray[Any]:
    """Return an attribute of jobs, such as ``"id"``, as a read-only array.

    `job_of` takes the number of a job, and returns an object like a `JobLabel`.
    """
    found: NDArray[Any] = np.empty(len(jobs), dtype)
    found[:] = [getattr(job_of(job), name) for job in jobs.tolist()]
    found.flags.writeable = False
    return found
