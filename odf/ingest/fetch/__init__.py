"""The fetch phase: source data of a root dataset, brought to this machine (ingest.md §2 to §4)."""

import json

from odf.errors import BadInputError
from odf.metadata.model import (
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    SourceCachingForever,
    SourceState,
)

from .base import FetchContext, Fetched, Fingerprint, Unchanged
from .checks import check_step
from .templates import Template, expand_all, expand_named
from .texts import texts_of

__all__ = [
    "FetchContext",
    "Fetched",
    "Fingerprint",
    "Unchanged",
    "check_step",
    "fetch",
    "place_of",
    "runs_of",
    "template_variables",
]


def fetch(step: FetchStep, state: SourceState | None, ctx: FetchContext) -> Fetched | Unchanged:
    """Fetch what is new at a source.

    Args:
        step: Where the data comes from.
        state: The newest state of this source, None if there is none. A state that belongs to
            another source (after a change of the manifest) must not be passed in.
        ctx: Where, when and with whose leave.

    Returns:
        A local file with the new data, or the reason why there is none.

    Raises:
        NotFoundError: There is no such file, no file that matches, or the server answers 404.
        AuthError: The server answers 401 or 403.
        BadInputError: The step cannot be carried out as it is written.
        TransportError: Reading or transferring failed.
    """
    match step:
        case FetchStepUrl():
            return _fetch_url(step, state, ctx)
        case FetchStepFilesGlob():
            from .files_glob import fetch_files_glob  # noqa: PLC0415 - pay for what is used

            return fetch_files_glob(step, state, ctx)
        case FetchStepMqtt():
            from .mqtt import fetch_mqtt  # noqa: PLC0415

            return fetch_mqtt(step, expand_named(texts_of(step), ctx.environment), ctx)
        case FetchStepEthereumLogs():
            from .ethereum import fetch_ethereum_logs  # noqa: PLC0415

            texts = expand_named(texts_of(step), ctx.environment)
            return fetch_ethereum_logs(step, texts, state, ctx)
        case FetchStepContainer():
            from .container import fetch_container  # noqa: PLC0415

            texts = expand_named(texts_of(step), ctx.environment)
            return fetch_container(step, texts, state, ctx)


def template_variables(step: FetchStep) -> tuple[str, ...]:
    """Name the variables of the environment that a step would read, for consent (design §8).

    Raises:
        BadInputError: A template is malformed.
    """
    templates = [Template.parse(text, where) for where, text in texts_of(step)]
    return tuple(dict.fromkeys(name for template in templates for name in template.variables))


def place_of(step: FetchStep) -> str:
    """Say where a step fetches from, with templates as they are written."""
    match step:
        case FetchStepUrl():
            return step.url
        case FetchStepFilesGlob():
            return step.path
        case FetchStepMqtt():
            return f"mqtt://{step.host}:{step.port}"
        case FetchStepEthereumLogs():
            return step.node_url or f"the chain {step.chain_id}"
        case FetchStepContainer():
            return step.image


def runs_of(step: FetchStep) -> tuple[tuple[str, ...], ...]:
    """List what a step would run, each with its arguments, for consent (design §8)."""
    if not isinstance(step, FetchStepContainer):
        return ()
    variables = (
        one.name if one.value is None else f"{one.name}={one.value}" for one in step.env or ()
    )
    options = [part for variable in variables for part in ("--env", variable)]
    entry = ("--entrypoint", json.dumps(step.command)) if step.command else ()
    return (("container", "run", *options, *entry, step.image, *(step.args or ())),)


def _fetch_url(
    step: FetchStepUrl, state: SourceState | None, ctx: FetchContext
) -> Fetched | Unchanged:
    if isinstance(step.cache, SourceCachingForever) and not ctx.is_first:
        return Unchanged("cache: forever, and the source was ingested before")
    url, *headers = expand_all(texts_of(step), ctx.environment)
    scheme, colon, _ = url.text.partition(":")
    match scheme.lower() if colon else "":
        case "file":
            from .local import fetch_file  # noqa: PLC0415

            return fetch_file(step, url, state, ctx)
        case "http" | "https":
            from .http import fetch_http  # noqa: PLC0415

            return fetch_http(step, url, headers, state, ctx)
        case "ftp" | "ftps":
            from .ftp import fetch_ftp  # noqa: PLC0415

            return fetch_ftp(step, url, state, ctx)
    raise BadInputError(
        f"{url.masked}: this release fetches file, http, https, ftp and ftps URLs only",
        reason="unsupported_scheme",
        hint="write a path of this machine as file:///path/to/file, or use FilesGlob",
    )
