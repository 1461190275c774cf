"""What an iteration takes on servers that a job has to itself: what iterations are counted by."""

from __future__ import annotations

import numpy as np

from netsim.parallel import ParallelModel

__all__ = ["seconds_per_iteration"]


def seconds_per_iteration(model: ParallelModel, gpus: int, nic: float, intra: float) -> float:
    """Return what an iteration takes on as few servers as can be, in seconds (A-SRPT, Eq. 7).

    Servers are filled one after the other, stage by stage, and a GPU has 1/g of a server's NIC.

    Parameters
    ----------
    model : ParallelModel
        Without slices or experts.
    gpus : int
        g, of a server.
    nic, intra : float
        B_inter and B_intra, in bytes per second.
    """
    k = np.array([stage.replicas for stage in model.stages])
    ends = np.cumsum(k)
    servers = np.arange(-(-model.gpus // gpus))[:, None]
    first = np.maximum(servers * gpus, ends - k)
    x = np.maximum(np.minimum((servers + 1) * gpus, ends) - first, 0)
    part = x / k
    d_in, d_out, h = (np.array([getattr(stage, name) for stage in model.stages])
                      for name in ("in_bytes", "out_bytes", "param_bytes"))
    d_in[0] = d_out[-1] = 0.0
    before, behind = np.zeros_like(part), np.zeros_like(part)
    before[:, 1:], behind[:, :-1] = part[:, :-1], part[:, 1:]
    near = 2 * d_in * before + 2 * d_out * behind
    far = 2 * d_in * (1 - before) + 2 * d_out * (1 - behind)
    summed = 2 * (k - 1) * h / k
    reduce = np.where(x < k, summed * gpus / (np.maximum(x, 1) * nic), summed / intra)
    compute = np.array([stage.forward_s + stage.backward_s for stage in model.stages])
    return float((compute + far * gpus / nic + near / intra + reduce)[x > 0].max())
