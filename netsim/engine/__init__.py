"""The engine of clusters: jobs arrive, wait, get GPUs, run and return them."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
