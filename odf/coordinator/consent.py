"""What a manifest may read and run on this machine, once its user agreed to it.

A manifest is written by somebody, perhaps not by who adds it. Where its source reads variables of
the environment (`${{ env.NAME }}`) or runs commands (`Pipe`) or a container (`Container`), `odf
add` asks first. The answer is kept beside the dataset in `info/consent`: not in the chain, and
never copied elsewhere. Each pull compares it with the source as the chain has it then: consent is
to these variables *for this fetch step*, and to these commands word by word.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from odf.errors import AuthError, BadInputError, NotFoundError, in_context
from odf.ingest.fetch import place_of, runs_of, template_variables
from odf.ingest.prepare import commands_of
from odf.metadata.identity import DatasetAlias
from odf.metadata.json import to_json
from odf.metadata.model import SetPollingSource
from odf.metadata.multiformats import Multihash
from odf.workspace.settings_files import SettingsError, read_manifest, write_manifest
from odf.workspace.workspace import DatasetHandle

_KIND = "Consent"
_FIELDS = ("environment", "fetch", "commands")


class ConsentError(AuthError):
    """A source reads or runs what its user has not agreed to."""

    kind = "consent"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a source does that needs consent.

    Attributes:
        environment: Names of the variables that it reads.
        fetch: Hash of the fetch step that reads them; empty if it reads none.
        place: Where the fetch step sends them, with templates as they are written.
        commands: Commands and containers that it runs, each with its arguments.
    """

    environment: tuple[str, ...]
    fetch: str
    place: str
    commands: tuple[tuple[str, ...], ...]

    def __bool__(self) -> bool:
        return bool(self.environment or self.commands)

    def describe(self) -> str:
        """Say what it is, in one line."""
        parts = []
        if self.environment:
            parts.append(f"reads {', '.join(self.environment)} from the environment")
        if self.commands:
            parts.append(f"runs {', '.join(map(shlex.join, self.commands))}")
        return " and ".join(parts)

    def flags(self) -> str:
        """Return the options of `odf add` that agree to all of it."""
        names = [f"--allow-env {name}" for name in self.environment]
        return " ".join([*names, *(["--allow-commands"] if self.commands else [])])


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """What a dataset needs consent for, as a person is asked.

    Attributes:
        name: The dataset.
        needs: What was not agreed to in advance.
    """

    name: DatasetAlias
    needs: Needs


@dataclass(frozen=True, slots=True)
class Grants:
    """What the user agrees to.

    Attributes:
        environment: Names of variables that manifests may read.
        commands: Manifests may run commands.
        ask: Asks a person about everything else at once; None where nobody can be asked.
    """

    environment: frozenset[str] = frozenset()
    commands: bool = False
    ask: Callable[[Sequence[ConsentRequest]], bool] | None = None


def needs_of(source: SetPollingSource) -> Needs:
    """Find what a source does that needs consent.

    Raises:
        BadInputError: A template is malformed.
    """
    names = template_variables(source.fetch)
    return Needs(
        environment=names,
        fetch=_hash(source) if names else "",
        place=place_of(source.fetch),
        commands=(*runs_of(source.fetch), *commands_of(source.prepare or ())),
    )


def obtain(sources: Sequence[tuple[DatasetAlias, SetPollingSource]], grants: Grants) -> None:
    """Make sure that the user agrees to what new sources read and run.

    Args:
        sources: The datasets and their sources.
        grants: What was agreed to in advance, and how to ask.

    Raises:
        ConsentError: The user does not agree, or cannot be asked.
        BadInputError: A template is malformed.
    """
    open_requests = [
        ConsentRequest(name, needs)
        for name, source in sources
        if (needs := _without(_needs_of(name, source), grants))
    ]
    if not open_requests or (grants.ask is not None and grants.ask(open_requests)):
        return
    said = "; ".join(
        f"dataset {request.name} {request.needs.describe()}" for request in open_requests
    )
    flags = " ".join(dict.fromkeys(_flags(open_requests)))
    raise ConsentError(
        f"{said}, which needs your consent; nothing was added",
        hint=None if grants.ask is not None else f"if you agree, add it with: {flags}",
        details={
            "requests": [
                {
                    "dataset": str(request.name),
                    "environment": list(request.needs.environment),
                    "commands": [list(command) for command in request.needs.commands],
                }
                for request in open_requests
            ]
        },
    )


def keep(handle: DatasetHandle, source: SetPollingSource) -> None:
    """Write down that the user agreed to everything that a source needs consent for."""
    needs = needs_of(source)
    path = _path(handle)
    if not needs:
        path.unlink(missing_ok=True)
        return
    content: dict[str, object] = {}
    if needs.environment:
        content |= {"environment": list(needs.environment), "fetch": needs.fetch}
    if needs.commands:
        content["commands"] = [list(command) for command in needs.commands]
    write_manifest(path, _KIND, content)


def permitted(
    handle: DatasetHandle, source: SetPollingSource, variables: Mapping[str, str]
) -> Mapping[str, str]:
    """Check that the user agreed to what a source reads and runs.

    Args:
        handle: The dataset.
        source: Its source, as the chain has it now.
        variables: The environment.

    Returns:
        The variables that the source may read, with their values.

    Raises:
        ConsentError: Something was not agreed to; nothing may be fetched then.
    """
    needs = needs_of(source)
    if not needs:
        return {}
    missing = _missing(needs, _path(handle))
    if missing:
        raise ConsentError(
            f"dataset {handle.alias} {missing.describe()}, which nobody here agreed to",
            hint=f"look at its source, and add it with: {missing.flags()}",
        )
    return {name: variables[name] for name in needs.environment if name in variables}


def _needs_of(name: DatasetAlias, source: SetPollingSource) -> Needs:
    try:
        return needs_of(source)
    except BadInputError as error:
        raise in_context(error, f"dataset {name}: fetch") from error


def _without(needs: Needs, grants: Grants) -> Needs:
    names = tuple(name for name in needs.environment if name not in grants.environment)
    return Needs(names, needs.fetch, needs.place, () if grants.commands else needs.commands)


def _flags(requests: Sequence[ConsentRequest]) -> list[str]:
    names = [f"--allow-env {name}" for request in requests for name in request.needs.environment]
    run = any(request.needs.commands for request in requests)
    return [*names, *(["--allow-commands"] if run else [])]


def _missing(needs: Needs, path: Path) -> Needs:
    """Return the part of the needs that the record at a path does not cover."""
    try:
        content = read_manifest(path, _KIND, _FIELDS)
    except NotFoundError:
        return needs
    names = _list(content, "environment", path) if content.get("fetch") == needs.fetch else []
    commands = _list(content, "commands", path)
    return Needs(
        tuple(name for name in needs.environment if name not in names),
        needs.fetch,
        needs.place,
        tuple(command for command in needs.commands if list(command) not in commands),
    )


def _list(content: Mapping[str, object], field: str, path: Path) -> list[object]:
    value = content.get(field, [])
    if not isinstance(value, list):
        raise SettingsError(f"{path}: content.{field}: wanted a list, got {value!r:.60}")
    return value


def _hash(source: SetPollingSource) -> str:
    text = json.dumps(to_json(source.fetch), sort_keys=True)
    return str(Multihash.sha3_256(text.encode()))


def _path(handle: DatasetHandle) -> Path:
    return handle.path / "info" / "consent"
