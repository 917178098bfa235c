"""`Decompress` of gzip: all members, one after the other, as RFC 1952 has it."""

import zlib

from odf.errors import BadInputError
from odf.limits import PREPARE_CHUNK

from .base import Bounds, Stream

_DAMAGED = "fetch the file again, and check it with: gzip -t"
_ZIP = "it is a zip archive: set `format: Zip`"
_PLAIN = "if it is not packed, leave the step out; other formats can be unpacked by a Pipe step"

_GZIP = 31  # window bits of zlib: a gzip wrapper, whose checksum and length zlib compares


class GunzipStream:
    """Unpacks gzip.

    Members follow each other (`cat a.gz b.gz`); zero bytes between and behind them are padding,
    as tapes and block devices leave it. Anything else there is damage.

    Args:
        upstream: The compressed data.
        where: File and step, for messages.
        bounds: How much may come out.
    """

    def __init__(self, upstream: Stream, where: str, bounds: Bounds) -> None:
        self._upstream = upstream
        self._where = where
        self._bounds = bounds
        self._pending = b""
        self._member = zlib.decompressobj(_GZIP)
        self._inside = False
        self._members = 0
        self._size = 0

    def read(self) -> bytes:
        """Return the next piece; see `Stream`."""
        while self._inside or self._begin_member():
            piece = self._inflate()
            if piece:
                self._size += len(piece)
                self._bounds.check(self._where, self._size, self._upstream.weight())
                return piece
        return b""

    def weight(self) -> int:
        """Return what stands behind the compressed data."""
        return self._upstream.weight()

    def cancel(self) -> None:
        """Cancel the step before."""
        self._upstream.cancel()

    def close(self) -> None:
        """Do nothing: there is only memory to let go of."""

    def _begin_member(self) -> bool:
        """Find the next member; False if there is none."""
        while True:
            if self._members:
                self._pending = self._pending.lstrip(b"\0")
            if self._pending:
                self._member = zlib.decompressobj(_GZIP)
                self._inside = True
                return True
            self._pending = self._upstream.read()
            if not self._pending:
                if not self._members:
                    raise self._damaged("it is empty; wanted gzip data")
                return False

    def _inflate(self) -> bytes:
        """Unpack a piece of the member; it may be empty before the member's end."""
        try:
            piece = self._member.decompress(self._pending, PREPARE_CHUNK)
        except zlib.error as error:
            hint = None
            if not self._members and not self._size:
                hint = _ZIP if self._pending.startswith(b"PK") else _PLAIN
            raise self._damaged(self._describe(error), hint) from None
        if self._member.eof:
            self._pending = self._member.unused_data
            self._inside = False
            self._members += 1
            return piece
        self._pending = self._member.unconsumed_tail
        if not piece and not self._pending:
            self._pending = self._upstream.read()
            if not self._pending:
                raise self._damaged(
                    f"the data ends in the middle, after {self._size} unpacked bytes"
                )
        return piece

    def _describe(self, error: zlib.error) -> str:
        text = str(error).rpartition(": ")[2]
        if text != "incorrect header check":
            return f"the data is damaged somewhere after {self._size} unpacked bytes: {text}"
        begin = self._pending[:4].hex(" ")
        if self._members:
            return f"something else than gzip follows {self._size} unpacked bytes: {begin}"
        return f"this is no gzip data: it begins with {begin}"

    def _damaged(self, what: str, hint: str | None = None) -> BadInputError:
        return BadInputError(f"{self._where}: {what}", reason="bad_archive", hint=hint or _DAMAGED)
