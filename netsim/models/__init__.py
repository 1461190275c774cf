"""Models that are trained with several kinds of parallelism at once, and how they are mapped."""

from netsim.lazy import loading
from netsim.models.models import ALLREDUCES, ModelStage, ParallelModel, allreduce_edges

__all__ = ["ALLREDUCES", "ModelStage", "ParallelModel", "allreduce_edges"]

__getattr__ = loading(__name__)
