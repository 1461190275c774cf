"""Models trained with several kinds of parallelism, and their mapping to servers."""

from netsim.base.lazy import loading
from netsim.models.models import ALLREDUCES, ModelStage, ParallelModel, allreduce_edges

__all__ = ["ALLREDUCES", "ModelStage", "ParallelModel", "allreduce_edges"]

__getattr__ = loading(__name__)
