"""Communication patterns of jobs, and the process that runs a job on the fabric."""

from netsim.lazy import loading

__getattr__ = loading(__name__)
