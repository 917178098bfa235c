"""FlatBuffers without a schema: a writer and a reader that trusts nothing.

The writer puts the same bytes as the builders of the FlatBuffers project (wire-format.md §b.8),
plus the unaligned struct of block layout 2. The reader checks every offset against the buffer and
bounds depth and visited bytes before it follows anything; the project's own Python library has no
verifier.
"""

import struct
from functools import lru_cache
from typing import Final, NoReturn

from odf.errors import IntegrityError
from odf.limits import MAX_FLATBUFFER_DEPTH, MAX_FLATBUFFER_VISIT_FACTOR
from odf.metadata.declare import Scalar

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_I32: Final = struct.Struct("<i")
_VTABLE_HEAD: Final = struct.Struct("<HH")
_PAD: Final = tuple(b"\0" * n for n in range(8))
_MIN_VISITS: Final = 64
_MAX_SIZE: Final = (1 << 31) - 1


class MalformedBufferError(IntegrityError):
    """Bytes that are not a FlatBuffer of the wanted type."""


@lru_cache(maxsize=64)
def _slots(count: int) -> struct.Struct:
    """Return how so many entries of a vtable are packed."""
    return struct.Struct(f"<{count}H")


class BufferWriter:
    """Builds one FlatBuffer from its end to its beginning.

    Positions are distances from the end, as FlatBuffers counts them while building.
    """

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._min_align = 1
        self._vtables: dict[tuple[int, ...], int] = {}

    def _push(self, data: bytes, align: int) -> int:
        """Put bytes below everything else so that they begin aligned."""
        self._min_align = max(self._min_align, align)
        pad = -(self._size + len(data)) % align
        self._chunks.append(data + _PAD[pad])
        self._size += len(data) + pad
        return self._size

    def text(self, value: bytes) -> int:
        """Write a string: length, UTF-8, NUL."""
        return self._push(_U32.pack(len(value)) + value + b"\0", 4)

    def blob(self, value: bytes) -> int:
        """Write a vector of bytes."""
        return self._push(_U32.pack(len(value)) + value, 4)

    def vector(self, items: list[int]) -> int:
        """Write a vector of offsets to what is already written."""
        self._push(b"", 4)
        base = self._size + 4 * len(items)
        offsets = [base - 4 * index - item for index, item in enumerate(items)]
        return self._push(struct.pack(f"<{len(items) + 1}I", len(items), *offsets), 4)

    def start(self) -> "TableWriter":
        """Begin a table; everything that it refers to must be written already."""
        return TableWriter(self)

    def finish(self, root: int) -> bytes:
        """Write the root offset and return the buffer."""
        align = max(self._min_align, 4)
        pad = -(self._size + 4) % align
        self._chunks.append(_PAD[pad])
        self._size += pad
        self._chunks.append(_U32.pack(self._size + 4 - root))
        return b"".join(reversed(self._chunks))


class TableWriter:
    """Builds one table; fields are written in the order of the calls."""

    __slots__ = ("_end", "_out", "_slots")

    def __init__(self, out: BufferWriter) -> None:
        self._out = out
        self._end = out._size  # noqa: SLF001 - two halves of one writer
        self._slots: dict[int, int] = {}

    def scalar(self, slot: int, kind: Scalar, value: int) -> None:
        """Put a number."""
        self._slots[slot] = self._out._push(struct.pack("<" + kind.code, value), kind.size)  # noqa: SLF001

    def byte(self, slot: int, value: int) -> None:
        """Put a boolean or the tag of a union."""
        self._slots[slot] = self._out._push(bytes((value,)), 1)  # noqa: SLF001

    def struct(self, slot: int, value: bytes, align: int) -> None:
        """Put a struct."""
        self._slots[slot] = self._out._push(value, align)  # noqa: SLF001

    def offset(self, slot: int, target: int) -> None:
        """Put a reference to something written before."""
        out = self._out
        out._push(b"", 4)  # noqa: SLF001
        self._slots[slot] = out._push(_U32.pack(out._size + 4 - target), 4)  # noqa: SLF001

    def end(self) -> int:
        """Write the vtable, or refer to an equal one, and return the table's position."""
        out = self._out
        table = out._push(b"\0\0\0\0", 4)  # noqa: SLF001
        patch = len(out._chunks) - 1  # noqa: SLF001
        count = max(self._slots, default=-1) + 1
        entries = [table - self._slots[slot] if slot in self._slots else 0 for slot in range(count)]
        key = (4 + 2 * count, table - self._end, *entries)
        vtable = out._vtables.get(key)  # noqa: SLF001
        if vtable is None:
            vtable = out._push(struct.pack(f"<{len(key)}H", *key), 2)  # noqa: SLF001
            out._vtables[key] = vtable  # noqa: SLF001
        placed = out._chunks[patch]  # noqa: SLF001
        out._chunks[patch] = _I32.pack(vtable - table) + placed[4:]  # noqa: SLF001
        return table


class BufferReader:
    """Bounds-checked access to one FlatBuffer.

    Args:
        data: The whole buffer.
        max_size: Largest size that is looked at.

    Raises:
        MalformedBufferError: If it is too large or too small to be one.
    """

    def __init__(self, data: bytes, max_size: int) -> None:
        if len(data) > min(max_size, _MAX_SIZE):
            raise MalformedBufferError(
                f"a buffer of {len(data)} bytes, at most {max_size} are read"
            )
        self.data = data
        self._budget = MAX_FLATBUFFER_VISIT_FACTOR * max(len(data), _MIN_VISITS)

    def root(self) -> "TableReader":
        """Return the root table."""
        return self.table(self.u32(0), 1)

    def visit(self, start: int, size: int, what: str) -> None:
        """Check that bytes are inside the buffer and take them from the budget."""
        if start < 0 or start + size > len(self.data):
            self._outside(start, size, what)
        self._budget -= size
        if self._budget < 0:
            raise MalformedBufferError("tables refer to the same bytes over and over")

    def _outside(self, start: int, size: int, what: str) -> NoReturn:
        raise MalformedBufferError(
            f"{what} at byte {start} with {size} bytes reaches outside a buffer of {len(self.data)}"
        )

    def u32(self, at: int) -> int:
        """Read an unsigned 32-bit number."""
        self.visit(at, 4, "an offset")
        return int(_U32.unpack_from(self.data, at)[0])

    def table(self, at: int, depth: int) -> "TableReader":
        """Return the table at a position.

        Args:
            at: Where it is.
            depth: How many tables are above it, this one included.
        """
        if depth > MAX_FLATBUFFER_DEPTH:
            raise MalformedBufferError(f"tables nested more than {MAX_FLATBUFFER_DEPTH} deep")
        data, end = self.data, len(self.data)
        if at < 0 or at + 4 > end:
            self._outside(at, 4, "a table")
        vtable = at - _I32.unpack_from(data, at)[0]
        if vtable < 0 or vtable + 4 > end:
            self._outside(vtable, 4, "a vtable")
        vtable_size, table_size = _VTABLE_HEAD.unpack_from(data, vtable)
        if vtable_size < 4 or vtable_size % 2 or table_size < 4:  # noqa: PLR2004 - their headers
            raise MalformedBufferError(
                f"a vtable at byte {vtable} of {vtable_size} bytes for a table of {table_size}"
            )
        self.visit(vtable, vtable_size, "a vtable")
        self.visit(at, table_size, "a table")
        slots = _slots((vtable_size - 4) // 2).unpack_from(data, vtable + 4)
        return TableReader(self, at, table_size, slots, depth)

    def blob(self, at: int) -> bytes:
        """Read the vector of bytes at a position."""
        data = self.data
        if at < 0 or at + 4 > len(data):
            self._outside(at, 4, "an offset")
        length = _U32.unpack_from(data, at)[0]
        self.visit(at, length + 4, "a vector")
        return data[at + 4 : at + 4 + length]

    def text(self, at: int) -> str:
        """Read the string at a position."""
        try:
            return self.blob(at).decode()
        except UnicodeDecodeError as error:
            raise MalformedBufferError(f"text at byte {at} is not UTF-8") from error

    def vector(self, at: int) -> list[int]:
        """Read the positions that a vector of offsets refers to."""
        length = self.u32(at)
        self.visit(at + 4, 4 * length, "a vector")
        offsets = struct.unpack_from(f"<{length}I", self.data, at + 4)
        return [at + 4 + 4 * index + offset for index, offset in enumerate(offsets)]


class TableReader:
    """Bounds-checked access to the fields of one table."""

    __slots__ = ("_at", "_size", "_slots", "buffer", "depth")

    def __init__(
        self, buffer: BufferReader, at: int, size: int, slots: tuple[int, ...], depth: int
    ) -> None:
        self.buffer = buffer
        self.depth = depth
        self._at = at
        self._size = size
        self._slots = slots

    def place(self, slot: int, size: int) -> int | None:
        """Return where a field of `size` bytes is, if it is present."""
        if slot >= len(self._slots) or not self._slots[slot]:
            return None
        start = self._slots[slot]
        if start < 4 or start + size > self._size:  # noqa: PLR2004 - behind the vtable's offset
            raise MalformedBufferError(
                f"a field at {start} of a table of {self._size} bytes at byte {self._at}"
            )
        return self._at + start

    def scalar(self, slot: int, kind: Scalar) -> int | None:
        """Read a number, `None` if absent."""
        at = self.place(slot, kind.size)
        if at is None:
            return None
        return int(struct.unpack_from("<" + kind.code, self.buffer.data, at)[0])

    def byte(self, slot: int) -> int | None:
        """Read a boolean or a union's tag, `None` if absent."""
        at = self.place(slot, 1)
        return None if at is None else self.buffer.data[at]

    def struct(self, slot: int, size: int) -> bytes | None:
        """Read the bytes of a struct, `None` if absent."""
        at = self.place(slot, size)
        return None if at is None else self.buffer.data[at : at + size]

    def offset(self, slot: int) -> int | None:
        """Return the position that a field refers to, `None` if absent."""
        at = self.place(slot, 4)
        return None if at is None else at + int(_U32.unpack_from(self.buffer.data, at)[0])

    def table(self, slot: int) -> "TableReader | None":
        """Return a nested table, `None` if absent."""
        at = self.offset(slot)
        return None if at is None else self.buffer.table(at, self.depth + 1)

    def text(self, slot: int) -> str | None:
        """Read a string, `None` if absent."""
        at = self.offset(slot)
        return None if at is None else self.buffer.text(at)

    def blob(self, slot: int) -> bytes | None:
        """Read a vector of bytes, `None` if absent."""
        at = self.offset(slot)
        return None if at is None else self.buffer.blob(at)

    def vector(self, slot: int) -> list[int] | None:
        """Return the positions that a vector of offsets refers to, `None` if absent."""
        at = self.offset(slot)
        return None if at is None else self.buffer.vector(at)
