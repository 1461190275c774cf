"""Tables in files: CSV, the same bytes as pandas writes but faster, and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.files import open_bytes, open_text
from netsim.base.lazy import pd
from netsim.base.limits import check_limit
from netsim.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow


# --- CSV -----------------------------------------------------------------------------------
def read_csv(path: str | Path, **options: Any) -> pd.DataFrame:
    """Read a table, with options of `pandas.read_csv`."""
    with open_text(path, newline="") as file:
        table: pd.DataFrame = pd.read_csv(file, **options)
    return table


def write_csv(chunks: Iterable[pd.DataFrame], path: Path) -> None:
    """Write a table given in chunks with the same columns; floats read back exactly."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for k, chunk in enumerate(chunks):
            texts = [_texts(chunk.iloc[:, column]) for column in range(chunk.shape[1])]
            if len(texts) < 2 or any(each is None for each in texts):
                chunk.to_csv(file, index=False, header=not k, lineterminator="\n")
                continue
            if not k:
                chunk.iloc[:0].to_csv(file, index=False, lineterminator="\n")
            lines = map(",".join, zip(*texts, strict=True))
            file.writelines(line + "\n" for line in lines)


def _texts(column: pd.Series) -> list[str] | None:
    """Format the values of a column; None if pandas has to write them.

    Values recur, such as instants, capacities and sizes of flows, so each is formatted once.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        names = list(column.cat.categories)
        if not all(isinstance(name, str) for name in names):
            return None
        written = np.array([*map(_quoted, names), ""], dtype=object)  # the last is for code -1
        return list(written[column.cat.codes.to_numpy(np.int64)])
    kind = column.dtype
    if kind == np.float64:
        return _written(column.to_numpy(), np.dtype(np.int64), _float)
    if kind == np.int64:
        return _written(column.to_numpy(), np.dtype(np.int64), str)
    return None


def _written(values: NDArray[Any], bits: np.dtype[Any], text: Callable[[Any], str]) -> list[str]:
    """Format values, formatting equal ones only once if that pays."""
    # Compared by their bits: 0.0 and -0.0 are equal, but are written differently.
    known, place = np.unique(np.ascontiguousarray(values).view(bits), return_inverse=True)
    if 2 * len(known) > len(values):
        return list(map(text, values.tolist()))
    texts = np.array(list(map(text, known.view(values.dtype).tolist())), dtype=object)
    return list(texts[place])


def _float(value: float) -> str:
    """Format a float exactly; NaN as an empty text."""
    return repr(value) if value == value else ""


def _quoted(name: str) -> str:
    """Quote a name as a field of CSV if necessary."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow((name, 0))
    return line.getvalue().removesuffix(",0\n")


# --- Arrow and Parquet ---------------------------------------------------------------------
def check_pyarrow() -> None:
    """Check that pyarrow is installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None


def arrow_table(frame: pd.DataFrame, schema: pyarrow.Schema | None = None) -> pyarrow.Table:
    """Convert a data frame to a table of Arrow, in which missing values are nulls.

    Columns of numbers are shared with the data frame, where Arrow can; texts are copied. Without a
    `schema`, columns keep their types, and all texts are strings.
    """
    check_pyarrow()
    import pyarrow

    columns = {str(name): column.map(str, na_action="ignore") if column.dtype == object else column
               for name, column in frame.items()}
    return pyarrow.Table.from_pandas(pd.DataFrame(columns, copy=False), schema or _schema(frame),
                                     preserve_index=False)


def read_parquet(path: str | Path, *, limit: bool = False) -> pd.DataFrame:
    """Read a table; errors are an `OSError` or a `ValueError`.

    With `limit`, the number of cells is checked first, as a few bytes may stand for many; see
    `netsim.base.files`.
    """
    check_pyarrow()
    import pyarrow
    from pyarrow import parquet

    with open_bytes(path) as file:
        try:
            if limit:
                said = parquet.read_metadata(file)
                check_limit("cells", said.num_rows * said.num_columns, path)
            table: pd.DataFrame = parquet.read_table(file).to_pandas()
        except (OSError, pyarrow.ArrowException) as error:
            raise ValueError(f"is not read as Parquet: {error}") from error
    return table


def write_parquet(chunks: Iterable[pd.DataFrame], path: Path) -> None:
    """Write a table given in chunks with the same columns; missing values become nulls."""
    check_pyarrow()
    from pyarrow import parquet

    rest = iter(chunks)
    first = next(rest)
    schema = _schema(first)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for chunk in chain((first,), rest):
            writer.write_table(arrow_table(chunk, schema))


def _schema(chunk: pd.DataFrame) -> pyarrow.Schema:
    """The types of columns; texts are strings even where there is none."""
    import pyarrow

    def of(column: pd.Series) -> Any:
        if column.dtype.kind in "iufb" or isinstance(column.dtype, pd.CategoricalDtype):
            return pyarrow.Schema.from_pandas(column.to_frame(), preserve_index=False).types[0]
        return pyarrow.string()

    return pyarrow.schema([(name, of(chunk[name])) for name in chunk])
