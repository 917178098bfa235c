"""The options `dateFormat` and `timestampFormat` of read steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odf.data.read_options import time_pattern
from odf.data.time_format import compile_time
from odf.engines.spark.readers import texts
from odf.errors import BadInputError
from odf.metadata.model import ReadStepCsv, ReadStepJson, ReadStepNdJson

_NANOS_PER_MICRO: Final = 1_000
_NANOS_PER_DAY: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class TimeFormats:
    """How dates and timestamps are written; None where the default rules (`texts`) hold.

    Attributes:
        date: Pattern of a DATE, in Java's way or strftime's (see `odf.data.time_format`).
        timestamp: Pattern of a TIMESTAMP likewise.
    """

    date: str | None = None
    timestamp: str | None = None

    def days(self) -> Callable[[str], int]:
        """Return how a text becomes days since 1970; the result raises `ValueError`."""
        return texts.days if self.date is None else _reader(self.date, _NANOS_PER_DAY)

    def micros(self) -> Callable[[str], int]:
        """Return how a text becomes microseconds since 1970 UTC, cut towards the past."""
        if self.timestamp is None:
            return texts.micros
        return _reader(self.timestamp, _NANOS_PER_MICRO)


DEFAULT_FORMATS: Final = TimeFormats()
"""RFC 3339 and its close variants."""


def time_formats(step: ReadStepCsv | ReadStepJson | ReadStepNdJson) -> TimeFormats:
    """Check the time formats of a read step.

    Raises:
        BadInputError: A pattern is not understood.
    """
    return TimeFormats(
        time_pattern("dateFormat", step.date_format),
        time_pattern("timestampFormat", step.timestamp_format),
    )


def _reader(pattern: str, nanos: int) -> Callable[[str], int]:
    parse = compile_time(pattern)

    def read(text: str) -> int:
        try:
            return parse(text).epoch_ns // nanos
        except BadInputError:
            raise ValueError(text) from None

    return read
