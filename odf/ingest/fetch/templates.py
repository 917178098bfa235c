"""`${{ env.NAME || 'default' }}` in a URL or a header value (ingest.md §3).

A template is expanded once: what a variable holds is never looked at for further templates.
Values of variables are secrets. They are masked in everything that is shown.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from odf.errors import BadInputError

MASK = "***"

_OPEN = "${{"
_TERM = re.compile(
    r"""\s*(?:
        env\.(?P<variable>[A-Za-z0-9_-]+)
      | '(?P<single>[^']*)'
      | "(?P<double>[^"]*)"
      | (?P<number>-?[0-9]+(?:\.[0-9]+)?)
    )\s*(?P<end>\|\||\}\})""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str


_Choice = tuple[_Variable | str, ...]  # terms of one `${{ … }}`, first that resolves wins


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text whose templates were filled in.

    Attributes:
        text: The real text; never to be shown.
        masked: The same with `***` in place of every value of a variable.
        secrets: The values that were put in.
    """

    text: str
    masked: str
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed text: literal parts, and choices that stand for a value."""

    parts: tuple[str | _Choice, ...]

    @classmethod
    def parse(cls, text: str, where: str) -> "Template":
        """Parse a text.

        Args:
            text: The text as the manifest has it.
            where: What it is, for messages, for example `url`.

        Raises:
            BadInputError: A `${{` is not followed by terms and `}}`.
        """
        parts: list[str | _Choice] = []
        at = 0
        while (start := text.find(_OPEN, at)) >= 0:
            parts.append(text[at:start])
            choice, at = _parse_choice(text, start, where)
            parts.append(choice)
        parts.append(text[at:])
        return cls(tuple(part for part in parts if part))

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables that the template may read, each once, in order."""
        terms = (term for part in self.parts if isinstance(part, tuple) for term in part)
        return tuple(dict.fromkeys(term.name for term in terms if isinstance(term, _Variable)))

    def missing(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Name the choices that nothing resolves, each as `A` or `A or B`."""
        return tuple(
            " or ".join(term.name for term in part if isinstance(term, _Variable))
            for part in self.parts
            if isinstance(part, tuple) and _resolve(part, environment) is None
        )

    def expand(self, environment: Mapping[str, str]) -> Expanded:
        """Fill in the values; `missing` must have been empty."""
        text, masked, secrets = "", "", []
        for part in self.parts:
            if isinstance(part, str):
                text, masked = text + part, masked + part
                continue
            value, secret = _resolve(part, environment) or ("", False)
            text += value
            masked += MASK if secret else value
            if secret:
                secrets.append(value)
        return Expanded(text, masked, tuple(secrets))


def expand_all(
    texts: Iterable[tuple[str, str]], environment: Mapping[str, str]
) -> tuple[Expanded, ...]:
    """Expand several texts of one fetch step.

    Args:
        texts: Pairs of what the text is (for messages) and the text.
        environment: The variables that may be read.

    Raises:
        BadInputError: A template is malformed, or variables are missing; all of them are named.
    """
    templates = [Template.parse(text, where) for where, text in texts]
    missing = dict.fromkeys(name for each in templates for name in each.missing(environment))
    if missing:
        raise BadInputError(
            f"the source needs variables that are not set, or not allowed: {', '.join(missing)}",
            reason="missing_variable",
            problems=tuple(missing),
            hint="set them in the environment, and allow them with `odf add --allow-env NAME`",
        )
    return tuple(each.expand(environment) for each in templates)


def expand_named(
    texts: Iterable[tuple[str, str]], environment: Mapping[str, str]
) -> dict[str, Expanded]:
    """Expand several texts of one fetch step, and give them by what they are; see `expand_all`."""
    texts = tuple(texts)
    names = (name for name, _ in texts)
    return dict(zip(names, expand_all(texts, environment), strict=True))


class Masker:
    """Takes secrets out of texts that others wrote: addresses, replies, system messages.

    Args:
        secrets: The values to hide. Percent-encoded forms of them are hidden too.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        # A value of blanks has an empty form, which would fit everywhere.
        forms = {form for value in secrets for form in _forms(value) if form}
        # Longest first, so that a value that contains another one disappears whole.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def clean(self, text: str) -> str:
        """Replace every secret in a text by `***`."""
        return self._pattern.sub(MASK, text) if self._pattern else text


def _forms(value: str) -> tuple[str, ...]:
    return (value, value.strip(), quote(value), quote(value, safe=""), quote(value, safe="/:?&=@"))


def _parse_choice(text: str, start: int, where: str) -> tuple[_Choice, int]:
    terms: list[_Variable | str] = []
    at = start + len(_OPEN)
    while term := _TERM.match(text, at):
        at = term.end()
        if term["variable"] is not None:
            terms.append(_Variable(term["variable"]))
        else:
            terms.append(
                next(term[k] for k in ("single", "double", "number") if term[k] is not None)
            )
        if term["end"] == "}}":
            return tuple(terms), at
    raise BadInputError(
        f"{where}: cannot read the template at {text[start : start + 60]!r}",
        reason="bad_template",
        hint="write ${{ env.NAME }} or ${{ env.NAME || 'default' }}",
    )


def _resolve(choice: _Choice, environment: Mapping[str, str]) -> tuple[str, bool] | None:
    """Find the first term that has a value; tell whether that value is a secret."""
    for term in choice:
        if isinstance(term, str):
            return term, False
        if term.name in environment:
            return environment[term.name], True
    return None
