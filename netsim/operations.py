"""What ranks compute and send in an iteration; a public name for `netsim.workload.operations`."""

from netsim.workload.operations import (
    COMMUNICATIONS,
    Communication,
    Family,
    Operations,
    Programs,
    Relation,
    Row,
    Sending,
    transfer,
)

__all__ = ["COMMUNICATIONS", "Communication", "Family", "Operations", "Programs", "Relation", "Row",
           "Sending", "transfer"]
