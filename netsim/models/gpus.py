"""GPUs by name, from which times of computation and the memory for a stage are derived."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netsim.base.files import read_text
from netsim.base.units import format_bytes, parse_bytes
from netsim.base.values import check_options, is_number, plain_numbers
from netsim.errors import InputError, UnknownNameError


@plain_numbers
@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU.

    Parameters
    ----------
    flops : float
        Operations per second at most, as published.
    memory : quantity
        Its memory, such as ``"80GB"``.
    utilisation : float
        The share of the operations that training reaches; 0.4 is netsim's assumption.

    Raises
    ------
    InputError
        If a value is not greater than 0, or `utilisation` is greater than 1.

    Examples
    --------
    >>> Gpu(100e12, "24GB").memory
    24000000000.0
    """

    flops: float
    memory: float
    utilisation: float = 0.4

    def __post_init__(self) -> None:
        for name, most in (("flops", 1e30), ("utilisation", 1.0)):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value <= most):
                raise InputError(f"{name} of a GPU must be a number above 0, at most {most:g}, "
                                 f"not {value!r}")
        object.__setattr__(self, "memory", parse_bytes(self.memory, "memory of a GPU", least=1))

    @property
    def speed(self) -> float:
        """Operations per second that training reaches."""
        return self.flops * self.utilisation


def gpu_of(given: str | Mapping[str, Any] | Gpu) -> Gpu:
    """Return a GPU, given its name, its parameters as a mapping, or itself."""
    if isinstance(given, Gpu):
        return given
    if isinstance(given, str):
        if given not in GPUS:
            raise UnknownNameError("GPU", given, GPUS)
        return GPUS[given]
    if not isinstance(given, Mapping):
        raise InputError(f"gpu must be a name, or a table with flops and memory, not {given!r}")
    check_options(Gpu, given, "gpu")
    return Gpu(**given)


def gpu_summaries() -> dict[str, str]:
    """Describe each GPU in a line, by its name."""
    return {name: f"{gpu.flops / 1e12:.4g} TFLOPS, {format_bytes(gpu.memory)}"
            for name, gpu in GPUS.items()}


def _read() -> dict[str, Gpu]:
    facts = tomllib.loads(read_text(Path(__file__).with_name("gpus.toml")))
    return {name: Gpu(one["flops"] if "flops" in one else
                      facts[one["slice_of"]]["flops"] * one["sevenths"] / 7, one["memory"])
            for name, one in facts.items()}


#: The GPUs of ``gpus.toml``.
GPUS: dict[str, Gpu] = _read()
