"""Elements of an XML file, without document types and entities, each with its line.

Entities can name files, and a few lines of them can stand for gigabytes; no format that netsim
reads has any. Files with a document type are refused before an entity could be defined, unless the
type is one that the reader expects, and declares nothing in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from netsim.base.reading import read_bytes, whole_of
from netsim.errors import TraceError

#: The deepest nesting.
_MOST_DEPTH = 1000

#: Blank lines and comments before the declaration of XML, which the parser wants first.
_LATE = re.compile(rb"((?>\s+|<!--.*?-->)+)(<\?xml\s.*?\?>)", re.DOTALL)


@dataclass
class Element:
    """An element of an XML file, with its position; lines are counted from 1."""

    name: str
    attributes: dict[str, str]
    path: Path
    line: int
    children: list[Element] = field(default_factory=list)

    def refuse(self, message: str) -> NoReturn:
        """Raise a `TraceError` with the position of this element."""
        raise TraceError(message, self.path, self.line)

    def named(self, *names: str) -> Iterator[Element]:
        """Yield the children with the given names."""
        return (child for child in self.children if child.name in names)

    def text(self, name: str, default: str | None = None) -> str:
        """Return an attribute, which must exist unless there is a default."""
        value = self.attributes.get(name, default)
        if value is None:
            self.refuse(f"<{self.name}> has no attribute {name!r}")
        return value

    def whole(self, name: str, least: int, default: int | None = None) -> int:
        """Return an attribute as a whole number of at least `least`."""
        text = self.text(name, None if default is None else str(default))
        return whole_of(text, f"<{self.name}>: {name}", self.refuse, least)


def read_xml(path: str | Path, *, doctype: str | None = None) -> Element:
    """Read an XML file; see `parse_xml`."""
    return parse_xml(read_bytes(path), Path(path), doctype=doctype)


def root_name(path: str | Path) -> str:
    """Return the name of the root of an XML file, and ``""`` if it has none."""
    found: list[str] = []

    def start(name: str, _: dict[str, str]) -> NoReturn:
        found.append(name)
        raise StopIteration

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with suppress(StopIteration, ValueError, LookupError, expat.ExpatError):
        parser.Parse(_declared_first(read_bytes(path)), True)
    return found[0] if found else ""


def _declared_first(data: bytes) -> bytes:
    """Move the declaration to the front; lines keep their numbers."""
    late = _LATE.match(data)
    return data if late is None else late[2] + late[1] + data[late.end():]


def parse_xml(data: bytes, path: Path, *, doctype: str | None = None) -> Element:
    """Parse XML, and return its root; `path` is for errors.

    Document types, entities and elements nested more than 1,000 deep are a `TraceError`. A document
    type named `doctype` is allowed if it declares nothing itself; the file that it names is not
    read.
    """
    parser = expat.ParserCreate()
    roots: list[Element] = []
    around: list[Element] = []

    def refuse(*_: object) -> NoReturn:
        raise TraceError("has a document type or entities, which are refused", path,
                         parser.CurrentLineNumber)

    def start_doctype(name: str, system: str | None, public: str | None, declares: bool) -> None:
        if name != doctype or declares:
            refuse()

    def start(name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes, path, parser.CurrentLineNumber)
        if len(around) >= _MOST_DEPTH:
            element.refuse(f"<{name}> is nested more than {_MOST_DEPTH:,} deep")
        (around[-1].children if around else roots).append(element)
        around.append(element)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: around.pop()
    parser.StartDoctypeDeclHandler = start_doctype
    parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.SkippedEntityHandler = refuse
    try:
        parser.Parse(_declared_first(data), True)
    except expat.ExpatError as error:
        raise TraceError(f"is not XML: {expat.ErrorString(error.code)}", path, error.lineno
                         ) from error
    except (ValueError, LookupError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"is not XML: {error}", path, parser.CurrentLineNumber) from error
    return roots[0]
