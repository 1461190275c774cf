"""Recognizes the JSON of other tools, for errors of readers that expect something else."""

from __future__ import annotations

from collections.abc import Mapping


def kind_of_json(document: object) -> str:
    """Say what a document is and how to read it, to be added to a message; "" if unknown."""
    if not isinstance(document, Mapping):
        return ""
    if "traceEvents" in document:
        return '; it is a profile of PyTorch (Kineto): format = "kineto"'
    if "workload_graph" in document:
        return '; it is a trace of Chakra: format = "chakra"'
    if "schema" in document and "nodes" in document:
        return ("; it is an execution trace of PyTorch: Chakra's chakra_trace_link and "
                "chakra_converter make a trace of Chakra of it and of a profile")
    return ""
