"""The options of read steps, as far as they can be judged without a file (ingest.md §6, design §7).

Pure: `odf add` refuses with these functions what the readers would refuse at the first pull.
"""

import codecs
from dataclasses import dataclass
from typing import Final

from odf.data.datatypes import Column, DataType, Kind, describe
from odf.data.read_schema import declared_columns
from odf.data.time_format import compile_time
from odf.errors import BadInputError
from odf.metadata.model import (
    ReadStep,
    ReadStepCsv,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)

UTF8: Final = codecs.lookup("utf-8").name
"""What readers work on."""

_DEFAULT_QUOTE: Final = '"'

_DEFAULT_FORMATS: Final = ("rfc3339", "iso8601")
"""Names of the time formats that the default rules take anyway."""

_NOT_IN_CSV: Final = frozenset({Kind.BINARY, Kind.FIXED_BINARY, Kind.ARRAY, Kind.STRUCT})
_BYTES: Final = frozenset({Kind.BINARY, Kind.FIXED_BINARY, Kind.UUID})


@dataclass(frozen=True, slots=True)
class CsvCharacters:
    """The characters that cut a CSV file into fields.

    Attributes:
        separator: Between fields.
        quote: Around fields, or None if quotes are ordinary characters.
        escape: Makes the next character ordinary, or None: then a doubled quote is a quote.
    """

    separator: str
    quote: str | None
    escape: str | None


def check_read_step(step: ReadStep) -> tuple[Column, ...] | None:
    """Look for what no file could be read with.

    Returns:
        The declared columns; None if none are declared.

    Raises:
        BadInputError: The step can never work.
    """
    columns = declared_columns(step)
    match step:
        case ReadStepCsv():
            csv_characters(step)
            _check_texts(step, "CSV")
            for column in columns or ():
                check_csv_type(column)
        case ReadStepJson() | ReadStepNdJson():
            if isinstance(step, ReadStepJson):
                sub_path(step.sub_path)
            _check_texts(step, "JSON")
            _check_json_columns(columns)
        case ReadStepParquet():
            pass
        case _:
            _check_json_columns(columns)
    return columns


def csv_characters(step: ReadStepCsv) -> CsvCharacters:
    """Return the characters that cut a file into fields.

    Raises:
        BadInputError: One of them is none, or two are the same.
    """
    quote = _DEFAULT_QUOTE if step.quote is None else step.quote
    separator = _character("separator", step.separator, ",")
    escape = _character("escape", step.escape, None)
    found = CsvCharacters(
        separator or ",",
        _character("quote", quote, None),
        None if escape == quote else escape,
    )
    if found.separator in (found.quote, found.escape):
        raise BadInputError(
            f"CSV separator {found.separator!r} is the quote or the escape character too",
            reason="csv",
            hint="give each of `separator`, `quote` and `escape` a character of its own; "
            "`quote: ''` turns quoting off",
        )
    return found


def encoding_name(given: str | None, kind: str) -> str:
    """Return the name of an encoding as Python knows it.

    Args:
        given: As in the manifest; nothing is UTF-8.
        kind: The read step, for messages: `CSV` or `JSON`.

    Raises:
        BadInputError: There is no such encoding of texts.
    """
    if not given:
        return UTF8
    try:
        found = codecs.lookup(given)
        # Some codecs of Python turn bytes into bytes; this one call refuses them.
        "".encode(given)
    except (LookupError, ValueError):  # a name with a zero character is a ValueError
        raise BadInputError(
            f"{kind} encoding {given!r} is not known",
            reason=kind.lower(),
            hint="for example utf-8, utf-16, latin-1, cp1252, gb18030",
        ) from None
    return found.name


def time_pattern(option: str, given: str | None) -> str | None:
    """Return the pattern of a time format; None where the default rules hold.

    Args:
        option: `dateFormat` or `timestampFormat`.
        given: As in the manifest.

    Raises:
        BadInputError: It is not understood.
    """
    if not given or given.casefold() in _DEFAULT_FORMATS:
        return None
    try:
        compile_time(given)
    except BadInputError as error:
        raise BadInputError(
            f"read.{option}: {error.message}", reason=error.reason, hint=error.hint
        ) from None
    return given


def sub_path(given: str | None) -> tuple[str, ...]:
    """Return the names in the `subPath` of a JSON document.

    Raises:
        BadInputError: One of them is empty.
    """
    if not given:
        return ()
    names = tuple(given.split("."))
    if not all(names):
        raise BadInputError(
            f"subPath {given!r} has an empty name in it",
            reason="json",
            hint="write the names of the members from the root to the array, like a.b.c",
        )
    return names


def check_csv_type(column: Column) -> None:
    """Refuse a type that no field of a CSV file can be read into.

    Raises:
        BadInputError: The column has such a type.
    """
    if column.type.kind in _NOT_IN_CSV:
        raise BadInputError(
            f"column `{column.name}`: a CSV field cannot hold {describe_type(column.type)}",
            reason="schema",
            hint="read it as STRING and convert it in the preprocess query",
        )


def check_json_type(column: Column) -> None:
    """Refuse a type that no member of a JSON object can be read into.

    Raises:
        BadInputError: The column has such a type, or a part of it does.
    """
    found = _bytes_in(column.type, nested=False)
    if found is None:
        return
    dtype, nested = found
    where = " inside an ARRAY or STRUCT" if nested else ""
    raise BadInputError(
        f"column `{column.name}`: JSON cannot hold a {describe_type(dtype)}{where}",
        reason="schema",
        hint="read it as STRING and convert it in the preprocess query, "
        "for example unhex(column) or unbase64(column)",
    )


def describe_type(declared: DataType) -> str:
    """Return a type as messages write it."""
    if declared.kind in (Kind.TIMESTAMP, Kind.TIME):
        return declared.kind.value
    return describe(declared)


def _bytes_in(dtype: DataType, *, nested: bool) -> tuple[DataType, bool] | None:
    if dtype.kind in _BYTES and (nested or dtype.kind is not Kind.UUID):
        return dtype, nested
    found = (_bytes_in(part.type, nested=True) for part in dtype.fields)
    return next((one for one in found if one is not None), None)


def _check_json_columns(columns: tuple[Column, ...] | None) -> None:
    for column in columns or ():
        check_json_type(column)


def _check_texts(step: ReadStepCsv | ReadStepJson | ReadStepNdJson, kind: str) -> None:
    encoding_name(step.encoding, kind)
    time_pattern("dateFormat", step.date_format)
    time_pattern("timestampFormat", step.timestamp_format)


def _character(option: str, given: str | None, default: str | None) -> str | None:
    if given is None or given == "":
        return default
    text = "\t" if given == "\\t" else given
    if len(text) != 1 or not text.isascii() or text in "\r\n":
        raise BadInputError(
            f"CSV option {option} is {given!r}: wanted one ASCII character that ends no line",
            reason="csv",
            hint="a tab is written \\t; a file with other separators can be converted by a Pipe "
            "step, for example with sed",
        )
    return text
