"""What prepare steps have in common."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from odf import limits
from odf.errors import BadInputError
from odf.runtimes.commands import CommandRunner


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may come out of a step.

    Attributes:
        max_size: Bytes that may come out at all.
        max_ratio: Bytes that may come out of an archive for each of its own.
        ratio_from: Bytes that may come out whatever the ratio.
    """

    max_size: int = limits.MAX_UNPACKED_SIZE
    max_ratio: int = limits.MAX_UNPACK_RATIO
    ratio_from: int = limits.UNPACK_RATIO_FROM

    def check(self, where: str, size: int, weight: int | None = None) -> None:
        """Stop what grows too large.

        Args:
            where: File and step, for the message.
            size: Bytes that came out so far.
            weight: Bytes of the archive that they came from; None if it was no archive.

        Raises:
            BadInputError: It is a bomb, or as good as one.
        """
        if size > self.max_size:
            raise BadInputError(
                f"{where}: more than {self.max_size} bytes come out",
                reason="too_large",
                hint="split the source, or cut it down before it is fetched",
            )
        if weight is not None and size > max(self.ratio_from, self.max_ratio * weight):
            raise BadInputError(
                f"{where}: {size} bytes came out of {weight} so far, more than {self.max_ratio} "
                "for each: that is no data, but an archive made to fill disks",
                reason="archive_bomb",
                hint="if it is to be trusted, unpack it by other means and read the result",
            )


@dataclass(frozen=True, slots=True)
class PrepareContext:
    """Where source data is prepared.

    Attributes:
        folder: Takes the result and what has to be kept on disk meanwhile.
        commands: Starts the commands of `Pipe`.
        report: Told what is being done.
        bounds: How much may come out of a step.
    """

    folder: Path
    commands: CommandRunner
    report: Callable[[str], None]
    bounds: Bounds = field(default_factory=Bounds)


class Stream(Protocol):
    """Data on its way from one step to the next."""

    def read(self) -> bytes:
        """Return the next piece, about `limits.PREPARE_CHUNK` at most; nothing at the end.

        Raises:
            OdfError: The data cannot be had; the stream is of no more use then.
        """
        ...

    def weight(self) -> int:
        """Return how many bytes stand behind the data, before any archive was unpacked."""
        ...

    def cancel(self) -> None:
        """Make a `read` that another thread waits in end soon; does not wait."""
        ...

    def close(self) -> None:
        """Let go of everything but the stream before, which is closed next; when nobody reads."""
        ...
