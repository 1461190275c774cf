"""Competitive ratio of A-SRPT (A-SRPT, Theorem 1)."""

from __future__ import annotations

from netsim.base.values import as_number, as_whole


def competitive_ratio(*, rho: float, tau: float, gpus: int, most_gpus: int, alpha_max: float,
                      alpha_min: float, error: float) -> float:
    """Return an upper bound on the ratio of A-SRPT's sum of completion times to the optimum.

    With G GPUs, of which a job has at most g, and ``r = G/(G-g)``, the bound is ::

        (2 + tau + rho r) rho + 2 rho g alpha_max/alpha_min (1 + tau + (1 + rho) r) error

    Parameters
    ----------
    rho : float
        Largest ratio, over all jobs, of a job's longest to its shortest iteration time.
    tau : float
        Longest wait of a job for a better placement, in units of its work.
    gpus, most_gpus : int
        G, the number of all GPUs, and g, the number of GPUs of the largest job.
    alpha_max, alpha_min : float
        Longest and shortest iteration of all jobs, in seconds.
    error : float
        Mean absolute error of the predicted numbers of iterations.

    Raises
    ------
    InputError
        If a job has all GPUs, which the theorem does not cover, or a number is out of range.

    Notes
    -----
    The true shortest iteration of a job is as hard to find as its best mapping to any servers.
    `netsim.models.iteration_time.alpha_min_bound` is a lower bound on it. If it is used instead,
    the result is still an upper bound.

    Examples
    --------
    >>> competitive_ratio(rho=1.5, tau=0, gpus=32, most_gpus=8, alpha_max=0.2, alpha_min=0.1,
    ...                   error=0)
    6.0
    """
    most_gpus = as_whole(most_gpus, "most_gpus", 1)
    gpus = as_whole(gpus, f"gpus, as a job has {most_gpus},", most_gpus + 1)
    rho, tau = as_number(rho, "rho", least=1), as_number(tau, "tau", least=0)
    alpha_min = as_number(alpha_min, "alpha_min", above=0)
    alpha_max = as_number(alpha_max, "alpha_max", least=alpha_min)
    error = as_number(error, "error", least=0)
    room = gpus / (gpus - most_gpus)
    exact = (2 + tau + rho * room) * rho
    return exact + (2 * rho * most_gpus * alpha_max / alpha_min
                    * (1 + tau + (1 + rho) * room) * error)
