"""Points in time on the command line."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # the metadata layer is not needed to print a help text
    from odf.metadata.model import Timestamp


class Time(click.ParamType):  # type: ignore[type-arg] # not generic before click 8.2
    """A point in time as RFC 3339 has it: `2024-01-31T12:00:00Z`, any offset, nanoseconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Timestamp":
        """Return the time."""
        from odf.metadata.timestamp import Timestamp, TimestampError

        if isinstance(value, Timestamp):
            return value
        try:
            return Timestamp.parse(str(value))
        except TimestampError as error:
            self.fail(error.message, param, ctx)
