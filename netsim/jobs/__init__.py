"""Communication patterns of jobs, and the process that runs a job on the fabric."""

from netsim.base.lazy import loading

__getattr__ = loading(__name__)
