"""Recording: what jobs, coflows, flows and links did, as rows."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
