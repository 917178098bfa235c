"""DataFusion's words for what is wrong with a query, turned into ours."""

import difflib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from odf.engines.datafusion.functions import (
    ALLOWED,
    EXACT_EQUIVALENTS,
    REFUSED,
    SPARK_EQUIVALENTS,
    TABLE_FUNCTIONS,
    TYPE_NAMES,
)
from odf.engines.datafusion.json_functions import JSON_FUNCTIONS
from odf.engines.host.queries import refuse_geometry
from odf.errors import InvalidQueryError

_PREFIXES: Final = re.compile(
    r"^(?:DataFusion error: |Error during planning: |SQL error: |Schema error: |Arrow error: "
    r"|This feature is not implemented: |Execution error: |External error: |Optimizer rule "
    r"'[^']*' failed\s+caused by\s+|type_coercion\s+caused by\s+)+"
)
_PARSER: Final = re.compile(r'^ParserError\("(.*)"\)$', re.DOTALL)
_NO_FUNCTION: Final = re.compile(r"Invalid function '([^']*)'")
_NO_TABLE_FUNCTION: Final = re.compile(r"table function '([^']*)' not found")
_NO_TABLE: Final = re.compile(r"table '(?:datafusion\.(?:public\.)?)?(.*)' not found")
_NO_COLUMN: Final = re.compile(r"No field named (.+?)\.(?:\s|$)")
_NO_STATEMENT: Final = re.compile(r"(?:DDL|DML|Statement) not supported: (\w+)")
_ARROWS: Final = re.compile(
    r"Operator (->>?|#>>?|\?\|?&?) is not yet supported|found: (\?[|&]?) at Line"
)
_NO_TYPE: Final = re.compile(r"Unsupported SQL type (\w+)")
_JSON_CALL: Final = re.compile(r"argument types '(json_\w+)\(")
_VALUES: Final = (
    "Cast error",
    "Parser error",
    "Divide by zero",
    "Arithmetic overflow",
    "Compute error",
    "Invalid argument error",
    "Execution error",
    "Overflow",
    "regex parse error",
)
_NOT_IMPLEMENTED: Final = "DataFusion error: This feature is not implemented: "
_NO_SIGNATURE: Final = re.compile(r"No function matches .*?\.(?= You| Candidate|$)", re.DOTALL)
_LONGEST: Final = 400
_ADVICE: Final = re.compile(r"\s*(?:Did you mean .*\?)?\s*Column names are case sensitive\..*?\.\s")


@contextmanager
def planning_errors(where: str, relations: Collection[str]) -> Iterator[None]:
    """Say what is wrong with a query that cannot be planned.

    Args:
        where: Which query it is.
        relations: Names of the tables that it may read.

    Raises:
        InvalidQueryError: Whatever DataFusion says.
    """
    try:
        yield
    except InvalidQueryError:
        raise
    except Exception as error:
        raise _planning_error(str(error), where, relations) from error


@contextmanager
def running_errors() -> Iterator[None]:
    """Tell values that a query cannot take from failures of the engine.

    Raises:
        InvalidQueryError: A value does not fit.
    """
    try:
        yield
    except Exception as error:
        text = str(error)
        if text.startswith(_NOT_IMPLEMENTED):  # some of it comes to light with the first row only
            raise InvalidQueryError(f"the query failed: {_cleaned(text)}") from error
        if text.startswith("DataFusion error: ") and any(word in text for word in _VALUES):
            raise InvalidQueryError(
                f"the query failed: {_cleaned(text)}",
                hint="for values that do not fit use TRY_CAST, NULLIF and the like",
            ) from error
        raise


def is_unknown_column(error: InvalidQueryError) -> bool:
    """Tell whether all that is wrong is a column that the tables do not have."""
    return error.details.get("unknown_column") is not None


def _planning_error(text: str, where: str, relations: Collection[str]) -> InvalidQueryError:
    if found := _NO_FUNCTION.search(text):
        return _function_error(found[1], where)
    if found := _NO_TABLE_FUNCTION.search(text):
        name = found[1]
        reason = TABLE_FUNCTIONS.get(name)
        said = f": {reason}" if reason else ""
        return InvalidQueryError(f"{where}: the table function {name} is not allowed{said}")
    if found := _NO_TABLE.search(text):
        listed = ", ".join(f"`{relation}`" for relation in relations)
        return InvalidQueryError(
            f"{where}: reads `{found[1]}`, which is no input of the query; inputs are {listed}",
            hint="names keep their case; one with dots or dashes goes in double quotes",
        )
    if found := _NO_COLUMN.search(text):
        if found[1].lower() in REFUSED:  # some are called without parentheses
            return _function_error(found[1].lower(), where)
        return InvalidQueryError(
            f"{where}: {_cleaned(text)}",
            hint="column names keep their case",
            details={"unknown_column": found[1]},
        )
    if found := _NO_STATEMENT.search(text):
        return InvalidQueryError(
            f"{where}: the statement {_words(found[1])} is not allowed",
            hint="a step is one query: SELECT …, with WITH if needed",
        )
    if found := _ARROWS.search(text):
        return InvalidQueryError(
            f"{where}: the operator {found[1] or found[2]} for JSON is not supported",
            hint="write json_get_str(text, 'key'), json_as_text, json_get_json or json_contains; "
            "for Spark: get_json_object(text, '$.key')",
        )
    if "single SQL statement" in text:
        return InvalidQueryError(
            f"{where}: there is more than one statement",
            hint="a step is one query: SELECT …, with WITH if needed",
        )
    return InvalidQueryError(f"{where}: {_cleaned(text)}", hint=_way_out(text))


def _way_out(text: str) -> str | None:
    """Say what to write instead, where that is known."""
    if _JSON_CALL.search(text):
        return (
            "functions for JSON take one key; a deeper field is reached by nesting: "
            "json_get_str(json_get_json(text, 'a'), 'b')"
        )
    if found := _NO_TYPE.search(text):
        name = TYPE_NAMES.get(found[1].upper())
        return f"here it is called {name}" if name else None
    return None


def _function_error(name: str, where: str) -> InvalidQueryError:
    if name in REFUSED:
        return InvalidQueryError(
            f"{where}: the function {name} is not allowed: {REFUSED[name]}",
            hint=EXACT_EQUIVALENTS.get(
                name, "results have to be reproducible; take such values from an input"
            ),
        )
    refuse_geometry(name, where)
    return InvalidQueryError(f"{where}: there is no function {name}", hint=_in_place_of(name))


def _in_place_of(name: str) -> str | None:
    """Say what to call in place of a function that does not exist, where that is known."""
    if name in SPARK_EQUIVALENTS:
        return f"here it is written {SPARK_EQUIVALENTS[name]}"
    if name.startswith("json_"):
        return f"functions for JSON are {', '.join(JSON_FUNCTIONS)}"
    if name.startswith("eth_"):
        return (
            "have the logs decoded where they are fetched: `signature` of the EthereumLogs step "
            "gives the column `event`"
        )
    near = difflib.get_close_matches(name, (*ALLOWED, *JSON_FUNCTIONS), n=1)
    return f"did you mean {near[0]}?" if near else None


def _words(statement: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", statement).upper()


def _cleaned(text: str) -> str:
    """Return a message in one line, without what DataFusion says about itself."""
    text = _PREFIXES.sub("", text)
    if found := _PARSER.match(text):
        text = found[1]
    elif found := _NO_SIGNATURE.search(text):
        text = found[0]
    line = " ".join(_ADVICE.sub(" ", text + " ").split())
    # Values of rows can be part of it.
    return line if len(line) <= _LONGEST else line[:_LONGEST] + " …"
