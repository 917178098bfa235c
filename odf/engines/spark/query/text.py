"""Queries as texts: which differ only in what means nothing."""

import re
from typing import Final

_TOKENS: Final = re.compile(
    r"""
      (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    | (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<space>\s+)
    | (?P<word>\w+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def same_text(sql: str) -> str:
    """Return a query without its comments, with one blank between any two parts.

    Two queries for which this gives the same mean the same; it does not say so of all that do.

    Args:
        sql: The query. Whatever it is, nothing inside of quotes is changed.
    """
    parts = [
        match.group()
        for match in _TOKENS.finditer(sql)
        if match.lastgroup not in ("comment", "space")
    ]
    return " ".join(parts)
