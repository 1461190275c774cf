"""Readers of recorded training: of Chakra, profiles of PyTorch, and workloads of SimAI and AICB."""

from netsim.base.lazy import loading
from netsim.traces.training.chakra import read_chakra
from netsim.traces.training.chakra_file import ChakraFile, ChakraNode, read_chakra_file
from netsim.traces.training.chakra_writer import write_chakra
from netsim.traces.training.experts import TraceExpertLoad
from netsim.traces.training.kineto import read_kineto
from netsim.traces.training.kineto_events import KinetoMeasures, KinetoTrace, read_kineto_file
from netsim.traces.training.rank_trace import RankNode, RankTrace, join
from netsim.traces.training.simai import read_simai, simai_times
from netsim.traces.training.simai_tool import SimaiTimes

__all__ = ["ChakraFile", "ChakraNode", "KinetoMeasures", "KinetoTrace", "RankNode", "RankTrace",
           "SimaiTimes", "TraceExpertLoad", "join", "read_chakra", "read_chakra_file",
           "read_kineto", "read_kineto_file", "read_simai", "simai_times", "write_chakra"]

__getattr__ = loading(__name__)
