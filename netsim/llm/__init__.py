"""Training of large language models: the operations of ranks from a model and its parallelism."""

from netsim.base.lazy import loading
from netsim.llm.expert_load import ExpertLoad
from netsim.llm.experts import expert_tokens
from netsim.llm.job import llm_job, llm_operations
from netsim.llm.setup import TrainingSetup
from netsim.llm.transformer import LLMS, Transformer, make_transformer

__all__ = ["LLMS", "ExpertLoad", "TrainingSetup", "Transformer", "expert_tokens", "llm_job",
           "llm_operations", "make_transformer"]

__getattr__ = loading(__name__)
