"""Columns that a dataset has already, for readers that find out columns for themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from odf.data.datatypes import Column, DataType, Kind
from odf.data.types import from_arrow

_WIDER: Final = {
    Kind.INT64: (Kind.FLOAT64,),
    Kind.DATE: (Kind.TIMESTAMP,),
}


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """Columns that a dataset has already.

    A column that is found in new files keeps its type if its values fit: a batch without
    fractions, or without any value, does not change what the column is.

    Attributes:
        types: Type of each by name.
    """

    types: dict[str, DataType] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: pa.Schema | None, system: Iterable[str]) -> "KnownColumns":
        """Take the columns of a dataset's schema that are not system columns."""
        left_out = set(system)
        return cls({f.name: from_arrow(f.type) for f in schema or () if f.name not in left_out})

    def widened(self, columns: Sequence[Column], empty: Iterable[str] = ()) -> tuple[Column, ...]:
        """Give columns of texts the types of the dataset where these hold all that was found.

        Args:
            columns: Columns with the types that were found.
            empty: Names of those in which no value was found, which fit any type.
        """
        without = set(empty)
        return tuple(self._widened(column, column.name in without) for column in columns)

    def _widened(self, column: Column, is_empty: bool) -> Column:
        known = self.types.get(column.name)
        if known is None:
            return column
        wider = _WIDER.get(column.type.kind, ())
        fits = is_empty or known.kind is Kind.STRING or known.kind in wider
        return replace(column, type=known) if fits else column
