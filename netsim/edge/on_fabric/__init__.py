"""Uploads and exchanges of gradients as flows over the shared links of an edge-cloud."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
