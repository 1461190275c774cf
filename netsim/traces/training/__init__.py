"""Readers of recorded training: execution traces of Chakra and profiles of PyTorch."""

from netsim.lazy import loading
from netsim.traces.training.chakra import read_chakra
from netsim.traces.training.chakra_file import ChakraFile, ChakraNode, read_chakra_file
from netsim.traces.training.chakra_writer import write_chakra
from netsim.traces.training.joining import join
from netsim.traces.training.kineto import read_kineto
from netsim.traces.training.kineto_events import KinetoMeasures, KinetoTrace, read_kineto_file
from netsim.traces.training.rank_trace import RankNode, RankTrace

__all__ = ["ChakraFile", "ChakraNode", "KinetoMeasures", "KinetoTrace", "RankNode", "RankTrace",
           "join", "read_chakra", "read_chakra_file", "read_kineto", "read_kineto_file",
           "write_chakra"]

__getattr__ = loading(__name__)
