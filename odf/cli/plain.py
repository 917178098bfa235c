"""Results of use cases as plain JSON values."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, StrEnum
from pathlib import Path

from odf.errors import OdfError


def to_plain(value: object) -> object:
    """Turn a result object into what JSON knows.

    Dataclasses become objects with their field names; errors their JSON form; hashes, names,
    identities and times their text (times RFC 3339 in UTC); enumerations their lower-case name.

    Args:
        value: A result of a use case, or a part of one.
    """
    if value is None or (isinstance(value, bool | int | float) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return value.value if isinstance(value, StrEnum) else value.name.lower()
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, OdfError):
        from odf.cli.output import error_object

        return error_object(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)
