"""Self-describing hashes and text encodings: varint, multihash, multibase.

See wire-format.md §c.1. Text is read strictly (one spelling for one value within an encoding), so
that a flipped bit in a stored hash is never read as the same hash.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from odf.errors import BadInputError
from odf.limits import MAX_MULTIBASE_LENGTH

SHA2_256: Final = 0x12
"""Multicodec of SHA2-256 digests."""

SHA3_256: Final = 0x16
"""Multicodec of SHA3-256 digests: blocks, files."""

ED25519_PUB: Final = 0xED
"""Multicodec of ed25519 public keys: dataset identifiers."""

ARROW0_SHA3_256: Final = 0x300016
"""Multicodec of the logical hash of tables (arrow-digest version 0 over SHA3-256)."""

METADATA_BLOCK: Final = 0x400000
"""Multicodec that names a metadata block in a manifest."""

_HASH_CODES: Final = frozenset({SHA2_256, SHA3_256, ARROW0_SHA3_256})
_MAX_DIGEST: Final = 32
_PLAIN_HEAD: Final = bytes((SHA3_256, _MAX_DIGEST))
_PLAIN_SIZE: Final = len(_PLAIN_HEAD) + _MAX_DIGEST
_MAX_VARINT_BYTES: Final = 9
_VARINT_MORE: Final = 0x80


class MultiformatError(BadInputError):
    """Bytes or text that are not a varint, multihash or multibase value."""


def encode_varint(value: int) -> bytes:
    """Write an unsigned integer as LEB128, 7 bits a byte, lowest first."""
    out = bytearray()
    while value >= _VARINT_MORE:
        out.append(value & 0x7F | _VARINT_MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """Read an unsigned LEB128 integer.

    Args:
        data: The bytes that hold it.
        start: Where it begins.

    Returns:
        The value, and the position behind it.

    Raises:
        MultiformatError: If it is cut off, too long, or not in its shortest form.
    """
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if start + index >= len(data):
            raise MultiformatError("a varint ends in the middle")
        byte = data[start + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < _VARINT_MORE:
            if byte == 0 and index:
                raise MultiformatError("a varint is not in its shortest form")
            return value, start + index + 1
    raise MultiformatError(f"a varint is longer than {_MAX_VARINT_BYTES} bytes")


@dataclass(frozen=True, slots=True, order=True)
class Multihash:
    """A digest together with the code of the function that made it.

    Attributes:
        code: Multicodec of the hash function, for example `SHA3_256`.
        digest: The raw digest, at most 32 bytes.
    """

    code: int
    digest: bytes

    @classmethod
    def sha3_256(cls, data: bytes) -> Self:
        """Hash `data` with SHA3-256."""
        return cls(SHA3_256, hashlib.sha3_256(data).digest())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the binary form: varint code, varint length, digest.

        Raises:
            MultiformatError: If the code is unknown or the length is not that of the rest.
        """
        if len(data) == _PLAIN_SIZE and data.startswith(_PLAIN_HEAD):
            return cls(SHA3_256, bytes(data[2:]))  # names of blocks and objects: nearly all
        code, at = decode_varint(data)
        if code not in _HASH_CODES:
            raise MultiformatError(f"unknown hash function 0x{code:x} in a multihash")
        length, at = decode_varint(data, at)
        if length != len(data) - at:
            raise MultiformatError(f"a multihash says {length} bytes and holds {len(data) - at}")
        if not 0 < length <= _MAX_DIGEST:
            raise MultiformatError(f"a multihash of {length} bytes, wanted 1 to {_MAX_DIGEST}")
        return cls(code, bytes(data[at:]))

    def to_bytes(self) -> bytes:
        """Write the binary form that `from_bytes` reads."""
        return encode_varint(self.code) + encode_varint(len(self.digest)) + self.digest

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a multihash in any supported multibase encoding.

        Raises:
            MultiformatError: If the text is not one.
        """
        data = decode_multibase(text)
        try:
            return cls.from_bytes(data)
        except MultiformatError as error:
            raise MultiformatError(f"{text!r} is not a multihash: {error.message}") from error

    @property
    def short(self) -> str:
        """The last eight characters of the text, for people."""
        return str(self)[-8:]

    def __str__(self) -> str:
        return encode_multibase(self.to_bytes())


_BASE58_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_DIGITS: Final = {char: value for value, char in enumerate(_BASE58_ALPHABET)}


def _base58_encode(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    out: list[str] = []
    while number:
        number, digit = divmod(number, 58)
        out.append(_BASE58_ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(out))


def _base58_decode(text: str) -> bytes:
    number = 0
    for char in text:
        number = number * 58 + _BASE58_DIGITS[char]
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _padded(text: str, group: int) -> str:
    return text + "=" * (-len(text) % group)


# The encodings of status "final" in the multibase table, by prefix: writer, reader.
_ENCODINGS: Final[dict[str, tuple[Callable[[bytes], str], Callable[[str], bytes]]]] = {
    "f": (bytes.hex, lambda text: base64.b16decode(text.upper())),
    "F": (lambda data: data.hex().upper(), base64.b16decode),
    "b": (
        lambda data: base64.b32encode(data).decode().rstrip("=").lower(),
        lambda text: base64.b32decode(_padded(text.upper(), 8)),
    ),
    "B": (
        lambda data: base64.b32encode(data).decode().rstrip("="),
        lambda text: base64.b32decode(_padded(text, 8)),
    ),
    "z": (_base58_encode, _base58_decode),
    "m": (
        lambda data: base64.b64encode(data).decode().rstrip("="),
        lambda text: base64.b64decode(_padded(text, 4), validate=True),
    ),
    "u": (
        lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
        lambda text: base64.b64decode(_padded(text, 4), altchars=b"-_", validate=True),
    ),
    "U": (
        lambda data: base64.urlsafe_b64encode(data).decode(),
        lambda text: base64.b64decode(text, altchars=b"-_", validate=True),
    ),
}


def encode_multibase(data: bytes, prefix: str = "f") -> str:
    """Write bytes as multibase text.

    Args:
        data: The bytes.
        prefix: Which encoding; `f`, lower-case base16, is the canonical one.
    """
    return prefix + _ENCODINGS[prefix][0](data)


def decode_multibase(text: str) -> bytes:
    """Read multibase text of any encoding with status "final".

    Raises:
        MultiformatError: If the prefix is unknown, the text is too long, or it is not the one
            spelling that the encoding has for its value.
    """
    if not text:
        raise MultiformatError("empty text, wanted a multibase value such as f1620…")
    if len(text) > MAX_MULTIBASE_LENGTH:
        raise MultiformatError(
            f"multibase text of {len(text)} characters, at most {MAX_MULTIBASE_LENGTH} are read"
        )
    prefix, body = text[0], text[1:]
    if prefix not in _ENCODINGS:
        raise MultiformatError(
            f"unknown multibase prefix {prefix!r} in {text!r}, wanted one of "
            + ", ".join(_ENCODINGS)
        )
    write, read = _ENCODINGS[prefix]
    try:
        data = read(body)
    except (ValueError, KeyError, binascii.Error) as error:
        raise MultiformatError(f"{text!r} is not multibase text of prefix {prefix!r}") from error
    if write(data) != body:
        raise MultiformatError(f"{text!r} is not the canonical spelling of its value")
    return data
