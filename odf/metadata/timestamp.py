"""Points in time, in nanoseconds, as the format has them."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from odf.errors import BadInputError

NANOS_PER_SECOND: Final = 1_000_000_000
_NANOS_PER_MILLI: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST: Final = int((datetime(1, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()) * NANOS_PER_SECOND
_HIGHEST: Final = (
    int((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).total_seconds()) + 86_400
) * NANOS_PER_SECOND - 1

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?"
    r"(?:([Zz])|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)


class TimestampError(BadInputError):
    """A text or number that is no point in time between the years 1 and 9999."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, UTC, to the nanosecond, in the years 1 to 9999.

    Attributes:
        epoch_ns: Nanoseconds since 1970-01-01T00:00:00Z.
    """

    epoch_ns: int

    def __post_init__(self) -> None:
        if not _LOWEST <= self.epoch_ns <= _HIGHEST:
            raise TimestampError(f"a time {self.epoch_ns} ns from 1970, outside years 1 to 9999")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read RFC 3339 with any offset, at most nine digits of a second.

        Raises:
            TimestampError: If the text is not one.
        """
        match = _RFC3339.fullmatch(text)
        if match is None:
            raise TimestampError(
                f"{text!r} is not a time, wanted RFC 3339 such as 2024-01-31T12:00:00Z"
            )
        *date, fraction, _, sign, off_hours, off_minutes = match.groups()
        try:
            local = datetime(*(int(part) for part in date), tzinfo=UTC)  # type: ignore[misc,arg-type]
            offset = _offset(sign, off_hours, off_minutes)
        except ValueError as error:
            raise TimestampError(f"{text!r} is not a time: {error}") from error
        seconds = (local - _EPOCH) // timedelta(seconds=1) - offset
        return cls(seconds * NANOS_PER_SECOND + int((fraction or "0").ljust(9, "0")))

    @classmethod
    def from_datetime(cls, moment: datetime) -> Self:
        """Take a timezone-aware datetime.

        Raises:
            TimestampError: If it has no time zone.
        """
        if moment.tzinfo is None:
            raise TimestampError(f"{moment} has no time zone")
        return cls((moment - _EPOCH) // timedelta(microseconds=1) * 1000)

    @classmethod
    def from_epoch_ms(cls, millis: int) -> Self:
        """Take milliseconds since 1970."""
        return cls(millis * _NANOS_PER_MILLI)

    @property
    def epoch_ms(self) -> int:
        """Whole milliseconds since 1970, cut towards the past."""
        return self.epoch_ns // _NANOS_PER_MILLI

    def to_datetime(self) -> datetime:
        """Return a UTC datetime, cut towards the past to the microsecond."""
        return _EPOCH + timedelta(microseconds=self.epoch_ns // 1000)

    def __str__(self) -> str:
        seconds, nanos = divmod(self.epoch_ns, NANOS_PER_SECOND)
        moment = _EPOCH + timedelta(seconds=seconds)
        text = moment.replace(tzinfo=None).isoformat()
        if nanos:
            digits = f"{nanos:09}"
            while digits.endswith("000"):
                digits = digits[:-3]
            text += "." + digits
        return text + "Z"


def _offset(sign: str | None, hours: str | None, minutes: str | None) -> int:
    """Return an offset in seconds, east positive."""
    if sign is None or hours is None or minutes is None:
        return 0
    if int(hours) > 23 or int(minutes) > 59:  # noqa: PLR2004 - of a clock
        raise ValueError("an offset is at most 23:59")
    value = int(hours) * 3600 + int(minutes) * 60
    return -value if sign == "-" else value
