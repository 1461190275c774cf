"""Recording of jobs, coflows, flows, links and decisions during a run, as rows of tables."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
