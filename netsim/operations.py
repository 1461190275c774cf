"""What ranks compute and send in an iteration; a public name for `netsim.workload.operations`."""

from netsim.workload.operations import Operations, Relation, Sending

__all__ = ["Operations", "Relation", "Sending"]
