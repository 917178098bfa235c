"""Which columns JSON objects have, and of which types, where no schema is declared.

All objects are looked at, so that the result depends neither on a sample nor on how files are
cut. Types as the live peer finds them: a boolean is BOOLEAN, an integer of 64 bits BIGINT, any
other number and a mixture of both DOUBLE, a text STRING, an array ARRAY, an object STRUCT; nothing
but nulls is STRING, and so is any other mixture and an object inside an array, which are then kept
as JSON text. Columns and fields are in the order of their names.
"""

from dataclasses import dataclass
from typing import Final

from odf.data.datatypes import Column, DataType, Kind
from odf.engines.spark.readers.json_text import Written
from odf.engines.spark.readers.known import KnownColumns
from odf.errors import BadInputError
from odf.limits import MAX_INFERRED_COLUMNS, MAX_INFERRED_FIELDS, MAX_TYPE_DEPTH

_BOOL: Final = 1
_INT: Final = 2
_FLOAT: Final = 4
_TEXT: Final = 8
_ANY: Final = 16
"""Bit of a position that holds too much to be typed."""

_SORTS: Final = {type(None): 0, bool: _BOOL, str: _TEXT, Written: _FLOAT}
"""Bits of all scalars but integers, which have to be looked at."""

_INT64: Final = range(-(2**63), 2**63)
_MAX_DEPTH: Final = MAX_TYPE_DEPTH - 2
_STRING: Final = DataType(Kind.STRING)


@dataclass(slots=True)
class Seen:
    """What was seen at one position of the objects.

    Adding values and joining what others saw gives the same in any order.

    Attributes:
        scalars: Bits of the sorts of scalars.
        element: What was seen in arrays, or None if there was none.
        fields: What was seen in objects by name, or None if there was none.
    """

    scalars: int = 0
    element: "Seen | None" = None
    fields: "dict[str, Seen] | None" = None

    def add(self, value: object) -> None:
        """Look at a value."""
        self._add(value, MAX_INFERRED_FIELDS, 0)

    def add_row(self, value: dict[str, object]) -> None:
        """Look at an object that is a row.

        Raises:
            BadInputError: The objects have more members than a table can have columns.
        """
        self._add(value, MAX_INFERRED_COLUMNS, 0)
        self._check_width()

    def join(self, other: "Seen") -> None:
        """Take in what was seen elsewhere at the same position.

        Raises:
            BadInputError: As `add_row`.
        """
        self._join(other, MAX_INFERRED_COLUMNS)
        self._check_width()

    def _add(self, value: object, most: int, depth: int) -> None:
        sort = _SORTS.get(type(value))
        if sort is not None:
            self.scalars |= sort
            return
        if self.scalars & _ANY:
            return
        if depth > _MAX_DEPTH and isinstance(value, dict | list):
            self._forget()
        elif isinstance(value, dict):
            self.fields = {} if self.fields is None else self.fields
            for name, part in value.items():
                seen = self.fields.get(name)
                if seen is None:
                    seen = self.fields[name] = Seen()
                if part is not None:
                    seen._add(part, MAX_INFERRED_FIELDS, depth + 1)
            self._forget_if_large(most)
        elif isinstance(value, list):
            self.element = Seen() if self.element is None else self.element
            for part in value:
                self.element._add(part, MAX_INFERRED_FIELDS, depth + 1)  # noqa: SLF001
        else:
            self.scalars |= _INT if value in _INT64 else _FLOAT

    def _join(self, other: "Seen", most: int) -> None:
        self.scalars |= other.scalars
        if self.scalars & _ANY:
            self._forget()
            return
        if other.element is not None:
            self.element = Seen() if self.element is None else self.element
            self.element._join(other.element, MAX_INFERRED_FIELDS)  # noqa: SLF001
        if other.fields is not None:
            self.fields = {} if self.fields is None else self.fields
            for name, part in other.fields.items():
                self.fields.setdefault(name, Seen())._join(part, MAX_INFERRED_FIELDS)  # noqa: SLF001
            self._forget_if_large(most)

    def _forget_if_large(self, most: int) -> None:
        if len(self.fields or ()) > most:
            self._forget()

    def _forget(self) -> None:
        self.scalars, self.element, self.fields = _ANY, None, None

    def _check_width(self) -> None:
        if self.scalars & _ANY:
            raise BadInputError(
                f"the objects have more than {MAX_INFERRED_COLUMNS} different members",
                reason="schema",
                hint="declare the columns that are wanted in `schema`",
            )

    def to_type(self) -> DataType:
        """Return the type that holds everything that was seen."""
        containers = (self.element is not None) + (self.fields is not None)
        if containers + bool(self.scalars) != 1:
            return _STRING
        if self.element is not None:
            inner = self.element.to_type()
            # A struct in an array has no logical hash, so it cannot be in a slice.
            kept = _STRING if inner.kind is Kind.STRUCT else inner
            return DataType(Kind.ARRAY, fields=(Column("element", kept),))
        if self.fields is not None:
            return self._struct()
        if self.scalars == _BOOL:
            return DataType(Kind.BOOLEAN)
        if self.scalars == _INT:
            return DataType(Kind.INT64)
        if self.scalars in (_FLOAT, _INT | _FLOAT):
            return DataType(Kind.FLOAT64)
        return _STRING

    def fits(self, dtype: DataType) -> bool:
        """Tell whether everything that was seen has a place in a type that this module gives."""
        containers = (self.element is not None) + (self.fields is not None)
        if dtype.kind is Kind.STRING or not (containers or self.scalars):
            return True
        if dtype.kind is Kind.ARRAY:
            only = self.element is not None and containers == 1 and not self.scalars
            return only and self.element is not None and self.element.fits(dtype.element.type)
        if dtype.kind is Kind.STRUCT:
            known = {part.name: part.type for part in dtype.fields}
            return (
                self.fields is not None
                and containers == 1
                and not self.scalars
                and all(n in known and part.fits(known[n]) for n, part in self.fields.items())
            )
        return not containers and not self.scalars & ~_TAKES.get(dtype.kind, 0)

    def _struct(self) -> DataType:
        names = sorted(self.fields or ())
        if not names or "" in names or len({name.casefold() for name in names}) < len(names):
            # Neither Parquet nor Spark has such structures.
            return _STRING
        fields = self.fields or {}
        return DataType(
            Kind.STRUCT, fields=tuple(Column(name, fields[name].to_type()) for name in names)
        )


_TAKES: Final = {Kind.BOOLEAN: _BOOL, Kind.INT64: _INT, Kind.FLOAT64: _INT | _FLOAT}


def inferred_columns(seen: Seen, known: KnownColumns) -> tuple[Column, ...]:
    """Return the columns of the objects that were seen.

    Args:
        seen: What was seen of all of them.
        known: Columns of the dataset. One that no object has is there all the same, without
            values; if nothing at all was seen there are no columns.

    Raises:
        BadInputError: A member without name cannot be a column.
    """
    if not seen.fields:
        return ()
    if "" in seen.fields:
        raise BadInputError(
            "the objects have a member without a name",
            reason="schema",
            hint="declare the columns that are wanted in `schema`",
        )
    columns = []
    for name in sorted({*seen.fields, *known.types}):
        found = seen.fields.get(name, Seen())
        wanted = known.types.get(name)
        fits = wanted is not None and found.fits(wanted)
        columns.append(Column(name, wanted if fits and wanted else found.to_type()))
    return tuple(columns)
