"""The engine of clusters: jobs arrive, wait, get GPUs, run and return them."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
