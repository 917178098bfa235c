"""The `filter` of `EthereumLogs`: an SQL condition, turned into what a node can be asked.

A node filters by contract, by up to four topics, and by a range of blocks. A condition that says
more would have to be checked row by row, which is what a preprocess query is for: it is refused,
so that nobody takes it for cheap (as the live peer does).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from odf import limits
from odf.errors import BadInputError

from .ethereum_event import EventSignature

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

TOPICS: Final = ("topic0", "topic1", "topic2", "topic3")

_SIZES: Final = {"address": 20, **dict.fromkeys(TOPICS, 32)}
_BLOCK = "block_number"
_SELECTOR = "eth_event_selector"
_MIRRORED = {"GT": "LT", "GTE": "LTE", "LT": "GT", "LTE": "GTE", "EQ": "EQ"}
_COLUMNS = f"{_BLOCK}, {', '.join(_SIZES)}"


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which logs are wanted: all that fit every part.

    Attributes:
        values: Wanted values by column, `address` or a topic; a column that is missing may have
            any value.
        first: First block.
        last: Last block; None for the newest one.
    """

    values: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    first: int = 0
    last: int | None = None

    @classmethod
    def parse(cls, text: str) -> LogFilter:
        """Read a condition.

        Raises:
            BadInputError: It is no condition, or says what a node cannot be asked.
        """
        import sqlglot  # noqa: PLC0415 - pay for what is used
        from sqlglot import exp  # noqa: PLC0415
        from sqlglot.errors import SqlglotError  # noqa: PLC0415

        if len(text) > limits.MAX_ETHEREUM_FILTER:
            raise BadInputError(
                f"the filter has more than {limits.MAX_ETHEREUM_FILTER} characters",
                reason="bad_filter",
                hint="leave conditions out, and filter in the preprocess query",
            )
        try:
            condition = sqlglot.parse_one(text, into=exp.Condition, dialect="postgres")
            return _evaluate(condition)  # type: ignore[arg-type]  # the class has two names there
        except SqlglotError as problem:
            first = str(problem).splitlines()[0] if str(problem) else "not understood"
            raise BadInputError(
                f"the filter {text.strip()!r:.200} is no SQL condition: {first:.200}",
                reason="bad_filter",
                hint="write it like: address = X'ae78…' and block_number > 13325304",
            ) from None
        except RecursionError:
            raise BadInputError(
                "the filter is nested too deeply",
                reason="bad_filter",
                hint="use `in (…)` for many values of a column",
            ) from None

    def both(self, other: LogFilter) -> LogFilter:
        """Return the filter for what fits this one and another one."""
        values = dict(self.values)
        for column, wanted in other.values.items():
            values[column] = values[column] & wanted if column in values else wanted
        lasts = [last for last in (self.last, other.last) if last is not None]
        return LogFilter(values, max(self.first, other.first), min(lasts, default=None))

    def either(self, other: LogFilter) -> LogFilter | None:
        """Return the filter for what fits this one or another one; None if there is no such one."""
        if self == other:
            return self
        if (self.first, self.last) != (other.first, other.last):
            return None
        differing = [
            column
            for column in self.values.keys() | other.values.keys()
            if self.values.get(column) != other.values.get(column)
        ]
        if len(differing) != 1 or not all(differing[0] in one.values for one in (self, other)):
            return None
        column = differing[0]
        union = self.values[column] | other.values[column]
        return replace(self, values={**self.values, column: union})

    def check_possible(self) -> None:
        """Make sure that there can be logs that fit.

        Raises:
            BadInputError: The parts of the filter exclude each other.
        """
        column = next((name for name, wanted in self.values.items() if not wanted), None)
        if column is None and self.last is not None and self.last < self.first:
            column = _BLOCK
        if column is not None:
            raise BadInputError(
                f"no log can ever fit: the conditions on {column} exclude each other",
                reason="bad_filter",
                hint="with a signature, topic0 is its hash and needs no condition",
            )

    def request(self, first: int, last: int) -> dict[str, object]:
        """Return the argument of `eth_getLogs` for a range of blocks."""
        asked: dict[str, object] = {"fromBlock": hex(first), "toBlock": hex(last)}
        if "address" in self.values:
            asked["address"] = _hex(self.values["address"])
        topics = [_hex(self.values[name]) if name in self.values else None for name in TOPICS]
        while topics and topics[-1] is None:
            topics.pop()
        if topics:
            asked["topics"] = topics
        return asked


def _hex(values: frozenset[bytes]) -> list[str]:
    return [f"0x{value.hex()}" for value in sorted(values)]


def _evaluate(node: Expression) -> LogFilter:
    from sqlglot import exp  # noqa: PLC0415

    match node:
        case exp.Paren():
            return _evaluate(node.this)
        case exp.And():
            return _evaluate(node.this).both(_evaluate(node.expression))
        case exp.Or():
            found = _evaluate(node.this).either(_evaluate(node.expression))
            if found is None:
                raise _too_much(node)
            return found
        case exp.In(this=exp.Column()) if node.expressions:
            return _one_of(node.this, node.expressions, node)
        case exp.Between(this=exp.Column()) if _name(node.this) == _BLOCK:
            low, high = _number(node.args["low"], node), _number(node.args["high"], node)
            return LogFilter(first=low, last=high)
        case exp.EQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return _comparison(node)
    raise _too_much(node)


def _comparison(node: Expression) -> LogFilter:
    from sqlglot import exp  # noqa: PLC0415

    left, right, operator = node.this, node.expression, type(node).__name__
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        left, right, operator = right, left, _MIRRORED[operator]
    if not isinstance(left, exp.Column):
        raise _too_much(node)
    if _name(left) != _BLOCK:
        if operator != "EQ":
            raise _too_much(node)
        return _one_of(left, [right], node)
    number = _number(right, node)
    match operator:
        case "EQ":
            return LogFilter(first=number, last=number)
        case "GT":
            return LogFilter(first=number + 1)
        case "GTE":
            return LogFilter(first=number)
        case "LT":
            return LogFilter(last=number - 1)
        case _:
            return LogFilter(last=number)


def _one_of(column: Expression, values: Sequence[Expression], node: Expression) -> LogFilter:
    name = _name(column)
    if name not in _SIZES:
        raise _too_much(node)
    return LogFilter({name: frozenset(_bytes(value, name, node) for value in values)})


def _bytes(value: Expression, column: str, node: Expression) -> bytes:
    from sqlglot import exp  # noqa: PLC0415

    if isinstance(value, exp.Anonymous) and str(value.this).lower() == _SELECTOR:
        match value.expressions:
            case [exp.Literal(is_string=True) as signature]:
                return EventSignature.parse(str(signature.this)).selector
        raise _too_much(node)
    if not isinstance(value, exp.HexString):
        raise _too_much(node)
    try:
        found = bytes.fromhex(str(value.this))
    except ValueError:
        found = b""
    if len(found) != _SIZES[column]:
        raise BadInputError(
            f"filter: {_shown(node)}: {column} has {_SIZES[column]} bytes, which are "
            f"{2 * _SIZES[column]} hexadecimal digits",
            reason="bad_filter",
            hint="an address has 20 bytes, a topic 32: pad it with zeros on the left",
        )
    return found


def _number(value: Expression, node: Expression) -> int:
    from sqlglot import exp  # noqa: PLC0415

    if isinstance(value, exp.Literal) and not value.is_string:
        text = str(value.this)
        if text.isascii() and text.isdigit() and len(text) < 20:  # noqa: PLR2004 - 64 bits
            return int(text)
    raise _too_much(node)


def _name(column: Expression) -> str:
    return str(column.name) if column.args.get("table") is None else ""


def _too_much(node: Expression) -> BadInputError:
    return BadInputError(
        f"filter: {_shown(node)} cannot be asked of a node",
        reason="bad_filter",
        hint=f"conditions on {_COLUMNS} can: the last ones with = or in and X'…' or "
        f"{_SELECTOR}('…'), joined by and; move the rest into a preprocess query",
    )


def _shown(node: Expression) -> str:
    return f"{node.sql(dialect='postgres'):.200}"
