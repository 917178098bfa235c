"""Reads the DDL of read steps: lists of column declarations (ODF "Schema Format"; ingest.md §6).

Grammar, keywords in any case::

    item     = column { "," column } [ "," ]
    column   = name type [ "NOT" "NULL" | "NULL" ]
    name     = word | '"' text '"' | "`" text "`"        doubled quotes stand for one
    type     = base { "[" "]" }                          INT[] is ARRAY<INT>
    base     = scalar | "ARRAY" "<" type ["NOT" "NULL"] ">" | "STRUCT" "<" field {"," field} ">"
    scalar   = word {word} [ "(" number {"," number} ")" ]
    field    = name [":"] type [ "NOT" "NULL" | "NULL" ]

The place decides what a word is, so any word can be a name, `date` and `key` too. Names keep their
case. Timestamps are in UTC and have nanoseconds unless a precision is given, as in the readers of
the reference; slices hold milliseconds.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from odf.data.datatypes import BY_NAME, Column, DataType, Kind
from odf.errors import BadInputError
from odf.limits import MAX_TYPE_DEPTH

_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | "(?P<double>(?:[^"]|"")*)"
      | `(?P<back>(?:[^`]|``)*)`
      | (?P<word>[\w$]+)
      | (?P<sign>[<>(),:\[\]])""",
    re.VERBOSE,
)
# What a decimal is at most in Arrow's and Spark's 16 bytes.
_MAX_DECIMAL_DIGITS: Final = 38
_MAX_FRACTION_DIGITS: Final = 9
_MAX_TIME_DIGITS: Final = 6
_DEFAULT_TIMESTAMP_DIGITS: Final = 9
# Digits are rounded up to the next unit that Arrow has.
_UNIT_STEP: Final = 3
_MAX_NUMBER_LENGTH: Final = 6
_ZONED: Final = ("TIMESTAMPTZ", "TIMESTAMP_LTZ")
_WHOLE: Final = (Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64)
# Words that go on with the type that the word before began.
_CONTINUATIONS: Final = {"UNSIGNED", "PRECISION", "VARYING", "SIGNED"}


class DdlError(BadInputError):
    """A column declaration that cannot be read: which item, where in it, what was wanted."""

    kind = "ddl"


def parse_ddl(schema: Sequence[str], *, force_utc: bool = True) -> tuple[Column, ...]:
    """Read the declarations of columns.

    Args:
        schema: The items of a read step's `schema`; one item may declare several columns.
        force_utc: Give timestamps the zone UTC, as all readers do. Without it those that do not
            ask for a zone have none.

    Returns:
        The columns in order, with types as declared.

    Raises:
        DdlError: Something is not as the grammar of this module, or two names are equal or differ
            by case only.
    """
    columns: list[Column] = []
    for number, item in enumerate(schema, 1):
        columns += _Parser(item, number, force_utc=force_utc).columns()
    check_names(columns)
    return tuple(columns)


def check_names(columns: Sequence[Column], where: str = "the schema") -> None:
    """Refuse columns whose names are equal or differ by case only.

    Args:
        columns: The columns.
        where: What has them, for messages.

    Raises:
        DdlError: Two of them do.
    """
    seen: dict[str, str] = {}
    for column in columns:
        folded = column.name.casefold()
        if folded in seen:
            other = seen[folded]
            same = "twice" if other == column.name else f"also as {other!r}, different by case only"
            raise DdlError(
                f"{where} has the column {column.name!r} {same}", hint="give each its own name"
            )
        seen[folded] = column.name


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # word, name (quoted), sign, end
    text: str
    position: int  # from 1


class _Parser:
    """A recursive descent over the tokens of one item."""

    def __init__(self, text: str, number: int, *, force_utc: bool) -> None:
        self._text = text
        self._number = number
        self._force_utc = force_utc
        self._tokens = list(self._scan())
        self._next = 0

    def columns(self) -> list[Column]:
        """Read the whole item."""
        found = [self._column()]
        while self._take(","):
            if self._peek().kind == "end":
                break
            found.append(self._column())
        if self._peek().kind != "end":
            self._fail_after_type()
        return found

    # tokens

    def _scan(self) -> list[_Token]:
        tokens, place = [], 0
        while place < len(self._text):
            match = _TOKEN.match(self._text, place)
            if match is None:
                self._fail_character(place)
            kind, position = match.lastgroup, place + 1
            if kind == "double":
                tokens.append(_Token("name", match["double"].replace('""', '"'), position))
            elif kind == "back":
                tokens.append(_Token("name", match["back"].replace("``", "`"), position))
            elif kind in ("word", "sign"):
                tokens.append(_Token(kind, match[0], position))
            place = match.end()
        tokens.append(_Token("end", "", len(self._text) + 1))
        return tokens

    def _fail_character(self, place: int) -> NoReturn:
        character = self._text[place]
        if character in '"`':
            self._fail(place + 1, f"the quoted name that begins here has no closing {character}")
        self._fail(
            place + 1,
            f"unexpected {character!r}",
            hint=f'quote names that have more than letters, digits, _ and $: "a{character}b"',
        )

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _advance(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _take(self, sign: str) -> bool:
        token = self._peek()
        if token.kind == "sign" and token.text == sign:
            self._next += 1
            return True
        return False

    def _take_word(self, *words: str) -> bool:
        """Take these words if they all come next, in any case."""
        coming = self._tokens[self._next : self._next + len(words)]
        if [(t.kind, t.text.upper()) for t in coming] == [("word", w) for w in words]:
            self._next += len(words)
            return True
        return False

    def _expect(self, sign: str, after: str) -> None:
        if not self._take(sign):
            token = self._peek()
            self._fail(token.position, f"wanted {sign!r} after {after}, got {_shown(token)}")

    def _fail(self, position: int, what: str, *, hint: str | None = None) -> NoReturn:
        raise DdlError(
            f"schema item {self._number} ({_clip(self._text)}), position {position}: {what}",
            hint=hint or "a column is declared as: name TYPE [NOT NULL]",
            details={"item": self._number, "position": position},
        )

    def _fail_after_type(self) -> NoReturn:
        token = self._peek()
        self._fail(
            token.position,
            f"wanted NOT NULL, a comma or the end after the type, got {_shown(token)}",
            hint="no other column options exist; a name with blanks goes in double quotes",
        )

    # grammar

    def _column(self, depth: int = 0) -> Column:
        token = self._advance()
        if token.kind not in ("word", "name") or not token.text:
            self._fail(token.position, f"wanted the name of a column, got {_shown(token)}")
        if depth:
            self._take(":")
        dtype = self._type(token.text, depth)
        return Column(token.text, dtype, self._nullable())

    def _nullable(self) -> bool:
        if self._take_word("NOT", "NULL"):
            return False
        self._take_word("NULL")
        return True

    def _type(self, column: str, depth: int) -> DataType:
        found = self._base_type(column, depth)
        while self._take("["):
            self._expect("]", "[")
            depth += 1
            if depth > MAX_TYPE_DEPTH:
                self._fail_depth(self._peek())
            found = DataType(Kind.ARRAY, fields=(Column("item", found, nullable=True),))
        return found

    def _fail_depth(self, token: _Token) -> NoReturn:
        self._fail(token.position, f"types are nested deeper than {MAX_TYPE_DEPTH} levels")

    def _base_type(self, column: str, depth: int) -> DataType:
        token = self._advance()
        if depth > MAX_TYPE_DEPTH:
            self._fail_depth(token)
        if token.kind != "word":
            self._fail(token.position, f"wanted the type of column {column!r}, got {_shown(token)}")
        name = token.text.upper()
        if name == "ARRAY":
            return self._array(column, depth)
        if name == "STRUCT":
            return self._struct(depth)
        kind = BY_NAME.get(name)
        coming = self._peek()
        if coming.kind == "word" and coming.text.upper() in _CONTINUATIONS:
            whole = f"{name} {coming.text.upper()}"
            # SIGNED says what an integer is anyway.
            kind = kind if whole.endswith(" SIGNED") else BY_NAME.get(whole)
            name = whole
            self._next += 1
        if kind is None:
            self._fail_type(token, name)
        return self._scalar(kind, name, token)

    def _fail_type(self, token: _Token, name: str) -> NoReturn:
        names = [*BY_NAME, "ARRAY", "STRUCT"]
        if name == "MAP":
            hint = "a map has no logical hash; use one column for each key, or text"
        elif close := difflib.get_close_matches(name, names, n=1, cutoff=0.6):
            hint = f"did you mean {close[0]}?"
        else:
            hint = f"types are {', '.join(sorted({k.value for k in BY_NAME.values()}))}"
        self._fail(token.position, f"unknown type {_clip(name)}", hint=hint)

    def _array(self, column: str, depth: int) -> DataType:
        self._expect("<", "ARRAY")
        element = self._type(column, depth + 1)
        nullable = self._nullable()
        self._expect(">", "the element type of ARRAY")
        return DataType(Kind.ARRAY, fields=(Column("item", element, nullable),))

    def _struct(self, depth: int) -> DataType:
        opening = self._peek()
        self._expect("<", "STRUCT")
        fields = [self._column(depth + 1)]
        while self._take(","):
            fields.append(self._column(depth + 1))
        self._expect(">", "the fields of STRUCT")
        where = f"schema item {self._number}, position {opening.position}: STRUCT"
        check_names(fields, where)
        return DataType(Kind.STRUCT, fields=tuple(fields))

    def _scalar(self, kind: Kind, name: str, token: _Token) -> DataType:
        numbers = self._numbers(name)
        match kind:
            case Kind.DECIMAL:
                return self._decimal(numbers, token)
            case Kind.TIMESTAMP:
                digits = self._digits(numbers, token, _MAX_FRACTION_DIGITS)
                zoned = self._zone() or name in _ZONED or self._force_utc
                precision = _DEFAULT_TIMESTAMP_DIGITS if digits is None else digits
                return DataType(
                    kind, precision=_unit_digits(precision), timezone="UTC" if zoned else None
                )
            case Kind.TIME:
                self._digits(numbers, token, _MAX_TIME_DIGITS)
                return DataType(kind, precision=_MAX_TIME_DIGITS)
            case Kind.STRING | Kind.BINARY if len(numbers) <= 1:
                return DataType(kind)  # lengths of texts are not limited, as in the reference
            case _ if kind in _WHOLE and len(numbers) <= 1:
                return DataType(kind)  # INT(11): how wide a number is shown says nothing of it
        if numbers:
            self._fail(token.position, f"{name} takes no parameters")
        return DataType(kind)

    def _numbers(self, name: str) -> list[int]:
        numbers: list[int] = []
        if not self._take("("):
            return numbers
        while True:
            token = self._advance()
            digits = token.text if token.kind == "word" else ""
            if not (digits.isascii() and digits.isdigit()) or len(digits) > _MAX_NUMBER_LENGTH:
                self._fail(token.position, f"wanted a number in {name}(...), got {_shown(token)}")
            numbers.append(int(digits))
            if not self._take(","):
                break
        self._expect(")", f"the parameters of {name}")
        return numbers

    def _decimal(self, numbers: list[int], token: _Token) -> DataType:
        if len(numbers) not in (1, 2):
            self._fail(
                token.position,
                f"wanted DECIMAL(digits, fraction digits), got {len(numbers)} numbers",
                hint="for example DECIMAL(18, 2)",
            )
        precision, scale = (*numbers, 0)[:2]
        if not (1 <= precision <= _MAX_DECIMAL_DIGITS and scale <= precision):
            self._fail(
                token.position,
                f"DECIMAL({precision}, {scale}) is out of range: wanted 1 to "
                f"{_MAX_DECIMAL_DIGITS} digits, and no more fraction digits than digits",
            )
        return DataType(Kind.DECIMAL, precision=precision, scale=scale)

    def _digits(self, numbers: list[int], token: _Token, most: int) -> int | None:
        if not numbers:
            return None
        if len(numbers) > 1 or numbers[0] > most:
            self._fail(
                token.position,
                f"wanted at most {most} fraction digits in {token.text.upper()}(p), "
                f"got {', '.join(map(str, numbers))}",
            )
        return numbers[0]

    def _zone(self) -> bool:
        if self._take_word("WITHOUT", "TIME", "ZONE"):
            return False
        return self._take_word("WITH", "TIME", "ZONE") or self._take_word(
            "WITH", "LOCAL", "TIME", "ZONE"
        )


def _unit_digits(digits: int) -> int:
    return -(-digits // _UNIT_STEP) * _UNIT_STEP


def _shown(token: _Token) -> str:
    return "the end" if token.kind == "end" else repr(_clip(token.text, quote=False))


def _clip(text: str, *, quote: bool = True) -> str:
    text = text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004
    return repr(text) if quote else text
