"""The engine of clusters: jobs arrive, wait, get GPUs, run, and give them back."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
