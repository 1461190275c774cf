"""Documents to files, also what is not quite such a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w
from hypothesis import strategies as st

from .mutations import changed, damaged, odd_values

__all__ = ["toml_of", "write_json", "written"]


def write_json(document: object, path: Path) -> None:
    """Write a document as JSON."""
    path.write_text(json.dumps(document, default=str), encoding="utf-8", errors="surrogatepass")


def toml_of(table: dict[str, Any], keys: Sequence[str] = (), *, counts: bool = False
            ) -> st.SearchStrategy[bytes]:
    """Draw what differs from a TOML file in what it says, or in its bytes."""
    values = changed(table, (*table, *keys), odd_values.filter(lambda value: value is not None))
    return damaged(tomli_w.dumps(table).encode(), counts=counts) | values.map(written)


def written(table: dict[str, Any]) -> bytes:
    """Return a table as TOML; what TOML cannot say is left out."""
    return tomli_w.dumps(_sayable(table)).encode("utf-8", "surrogatepass")


def _sayable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sayable(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_sayable(each) for each in value if each is not None]
    if isinstance(value, int) and abs(value) > 10**300:
        return 10**300  # of more digits than Python prints
    return value
