"""Event signatures of Solidity, and the logs that they describe.

A signature is written as in a contract: `Transfer(address indexed from, address indexed to,
uint256 value)`. Its hash is the first topic of its logs; indexed parameters are the other topics,
all others are in the data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from odf import limits
from odf.errors import BadInputError

if TYPE_CHECKING:
    import pyarrow as pa

_TOKEN = re.compile(r"\s*([A-Za-z_$][\w$]*|\[\d*\]|[(),])")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_NUMBER = re.compile(r"(u?int)(\d{1,3})")
_BYTES = re.compile(r"bytes(\d{1,2})")
_WORDS = frozenset({"indexed", "payable", "memory", "calldata"})
_WORD: Final = 32
_SMALL: Final = 64
_MAX_BITS: Final = 256
_MAX_INDEXED: Final = 3
_FEW: Final = 4
_UNFOLDING: Final = 16


class UnfitLogError(Exception):
    """A log that has this signature's hash and another shape."""


@dataclass(frozen=True, slots=True)
class AbiType:
    """A type of the contract ABI.

    Attributes:
        base: Its name without brackets, in full (`uint256`, not `uint`); `tuple` for structs.
        sizes: Lengths of the arrays around it, the innermost first; None for any length.
        fields: Fields of a struct.
    """

    base: str
    sizes: tuple[int | None, ...] = ()
    fields: tuple[Parameter, ...] = ()

    @property
    def canonical(self) -> str:
        """The type as signatures are hashed with it."""
        inner = ",".join(one.type.canonical for one in self.fields)
        base = f"({inner})" if self.base == "tuple" else self.base
        return base + "".join("[]" if size is None else f"[{size}]" for size in self.sizes)

    @property
    def is_word(self) -> bool:
        """An indexed value of it is in its topic; of others there is only the hash."""
        return not self.sizes and self.base not in ("tuple", "string", "bytes")

    @property
    def is_dynamic(self) -> bool:
        """Its values are reached by a pointer."""
        if None in self.sizes or self.base in ("string", "bytes"):
            return True
        return any(one.type.is_dynamic for one in self.fields)

    def pointers(self) -> int:
        """Count the longer arrays around values that are reached by a pointer themselves."""
        inside = max((one.type.pointers() for one in self.fields), default=0)
        dynamic = AbiType(self.base, (), self.fields).is_dynamic
        for size in self.sizes:
            inside += dynamic and (size is None or size > _FEW)
            dynamic = dynamic or size is None
        return inside

    def arrow(self) -> pa.DataType:
        """Return the type of its column: numbers that need more than 64 bits are text."""
        import pyarrow as pa  # noqa: PLC0415

        number = _NUMBER.fullmatch(self.base)
        if self.base == "tuple":
            found = pa.struct([(one.name, one.type.arrow()) for one in self.fields])
        elif self.base == "bool":
            found = pa.bool_()
        elif number and int(number[2]) <= _SMALL:
            found = pa.uint64() if number[1] == "uint" else pa.int64()
        elif number or self.base == "string":
            found = pa.string()
        else:
            found = pa.binary()
        for _ in self.sizes:
            found = pa.list_(found)
        return found

    def value(self, decoded: Any) -> Any:
        """Turn a decoded value into one of the Arrow type."""
        if self.sizes:
            inner = AbiType(self.base, self.sizes[:-1], self.fields)
            return [inner.value(one) for one in decoded]
        if self.base == "tuple":
            return {
                one.name: one.type.value(part)
                for one, part in zip(self.fields, decoded, strict=True)
            }
        if self.base == "address":
            return bytes.fromhex(decoded.removeprefix("0x"))
        number = _NUMBER.fullmatch(self.base)
        return str(decoded) if number and int(number[2]) > _SMALL else decoded


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an event, or a field of a struct."""

    name: str
    type: AbiType
    indexed: bool = False


@dataclass(frozen=True)
class EventSignature:
    """An event.

    Attributes:
        name: Its name.
        parameters: Its parameters, in order.
        anonymous: Its hash is not among the topics of its logs.
    """

    name: str
    parameters: tuple[Parameter, ...]
    anonymous: bool = False

    @classmethod
    def parse(cls, text: str) -> EventSignature:
        """Read a signature.

        Raises:
            BadInputError: It is none, or has a type that is not known.
        """
        if len(text) > limits.MAX_ETHEREUM_FILTER:
            raise BadInputError(
                "the signature is too long",
                reason="bad_signature",
                hint="it is written like Transfer(address indexed from, uint256 amount)",
            )
        return _Parser(text).event()

    @cached_property
    def selector(self) -> bytes:
        """Hash of the signature, the first topic of its logs."""
        from Crypto.Hash import keccak  # noqa: PLC0415 - pay for what is used

        types = ",".join(one.type.canonical for one in self.parameters)
        return keccak.new(digest_bits=256, data=f"{self.name}({types})".encode()).digest()

    @property
    def ordered(self) -> tuple[Parameter, ...]:
        """Its parameters as the fields of `event`: indexed ones first, as the live peer has it."""
        return tuple(sorted(self.parameters, key=lambda one: not one.indexed))

    def arrow(self) -> pa.DataType:
        """Return the type of the column `event`."""
        import pyarrow as pa  # noqa: PLC0415

        return pa.struct(
            [
                (
                    one.name,
                    pa.binary() if one.indexed and not one.type.is_word else one.type.arrow(),
                )
                for one in self.ordered
            ]
        )

    def decode(self, topics: Sequence[bytes], data: bytes) -> dict[str, object]:
        """Decode a log.

        Raises:
            UnfitLogError: It has another shape: two events can have the same hash and differ in
                what is indexed.
        """
        indexed = [one for one in self.parameters if one.indexed]
        plain = [one for one in self.parameters if not one.indexed]
        hashed = topics if self.anonymous else topics[1:]
        if len(hashed) != len(indexed) or (not self.anonymous and topics[0] != self.selector):
            raise UnfitLogError
        if len(data) > limits.MAX_ETHEREUM_NESTED and any(one.type.pointers() for one in plain):
            # Pointers may all lead to the same place, so that little data unfolds to much.
            raise UnfitLogError
        values: dict[str, object] = {}
        for one, topic in zip(indexed, hashed, strict=True):
            word = one.type.is_word
            values[one.name] = (
                one.type.value(_decode([one.type.canonical], topic)[0]) if word else topic
            )
        decoded = _decode([one.type.canonical for one in plain], data)
        if _weight(decoded) > _UNFOLDING * (len(data) + _WORD):
            raise UnfitLogError
        for one, value in zip(plain, decoded, strict=True):
            values[one.name] = one.type.value(value)
        return {one.name: values[one.name] for one in self.ordered}


def _decode(types: list[str], data: bytes) -> tuple[Any, ...]:
    from eth_abi.abi import decode  # noqa: PLC0415 - pay for what is used
    from eth_abi.exceptions import DecodingError  # noqa: PLC0415

    try:
        return tuple(decode(types, data))
    except (DecodingError, UnicodeDecodeError, OverflowError):
        raise UnfitLogError from None


def _weight(value: Any) -> int:
    """Estimate the bytes of a decoded value."""
    if isinstance(value, list | tuple):
        return sum(map(_weight, value), start=len(value))
    return len(value) if isinstance(value, str | bytes) else 8


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at, end = 0, len(text.rstrip().rstrip(";"))
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._bad(f"at {text[at : at + 20].strip()!r}")
            self.tokens.append(found[1])
            at = found.end()
        self.at = 0

    def event(self) -> EventSignature:
        if self._peek() == "event":
            self.at += 1
        name = self._take()
        if not _NAME.fullmatch(name):
            raise self._bad("it has no name")
        parameters = self._parameters(depth=0)
        anonymous = self._peek() == "anonymous"
        self.at += anonymous
        if self._peek():
            raise self._bad(f"something follows its end: {self._peek()!r}")
        if sum(one.indexed for one in parameters) > _MAX_INDEXED + anonymous:
            raise self._bad(f"more than {_MAX_INDEXED + anonymous} parameters are indexed")
        if any(one.type.pointers() > 1 for one in parameters):
            raise self._bad("lists of lists of what has no fixed size are not decoded")
        return EventSignature(name, parameters, anonymous)

    def _parameters(self, depth: int) -> tuple[Parameter, ...]:
        if self._take() != "(":
            raise self._bad("wanted ( and parameters")
        if depth > limits.MAX_TYPE_DEPTH:
            raise self._bad("its types are nested too deeply")
        found: list[Parameter] = []
        if self._peek() == ")" and not depth:
            self.at += 1
            return ()
        while True:
            found.append(self._parameter(len(found), depth))
            end = self._take()
            if end == ")":
                break
            if end != ",":
                raise self._bad(f"wanted , or ), got {end!r}")
        names = [one.name for one in found]
        if len(set(map(str.lower, names))) < len(names):
            raise self._bad("two parameters have the same name")
        return tuple(found)

    def _parameter(self, number: int, depth: int) -> Parameter:
        fields: tuple[Parameter, ...] = ()
        if self._peek() == "tuple":
            self.at += 1
        if self._peek() == "(":
            base, fields = "tuple", self._parameters(depth + 1)
        else:
            written = self._take()
            base = _full(written)
            if not base:
                raise self._bad(f"the type {written!r} is not known")
        sizes: list[int | None] = []
        while self._peek().startswith("["):
            size = self._take()[1:-1]
            if size and not 0 < int(size[:9]) <= limits.MAX_ETHEREUM_ARRAY:
                raise self._bad(f"an array of {size[:9]} elements")
            sizes.append(int(size) if size else None)
        words, name = set(), ""
        while _NAME.fullmatch(self._peek()):
            word = self._take()
            if word not in _WORDS:
                name = word
                break
            words.add(word)
        return Parameter(
            name or f"arg{number}", AbiType(base, tuple(sizes), fields), "indexed" in words
        )

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _bad(self, what: str) -> BadInputError:
        return BadInputError(
            f"cannot read the signature {' '.join(self.text.split())!r:.200}: {what}",
            reason="bad_signature",
            hint="write it like Transfer(address indexed from, address indexed to, uint256 value)",
        )


def _full(name: str) -> str:
    """Return the full name of a type without brackets; nothing if there is no such type."""
    if name in ("uint", "int"):
        return f"{name}{_MAX_BITS}"
    if name in ("address", "bool", "string", "bytes"):
        return name
    if number := _NUMBER.fullmatch(name):
        bits = int(number[2])
        return name if 0 < bits <= _MAX_BITS and bits % 8 == 0 and number[2][0] != "0" else ""
    if size := _BYTES.fullmatch(name):
        return name if 0 < int(size[1]) <= _WORD and size[1][0] != "0" else ""
    return ""
