"""The fetch phase: source data of a root dataset, brought to this machine (ingest.md §2 to §4)."""

from odf.errors import BadInputError
from odf.metadata.model import (
    FetchStep,
    FetchStepFilesGlob,
    FetchStepUrl,
    SourceCachingForever,
    SourceState,
)

from .base import FetchContext, Fetched, Fingerprint, Unchanged
from .templates import Template, expand_all

__all__ = ["FetchContext", "Fetched", "Fingerprint", "Unchanged", "fetch", "template_variables"]


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
        case _:
            kind = type(step).__name__.removeprefix("FetchStep")
            raise BadInputError(
                f"fetch kind {kind} is not supported yet by this release",
                reason="unsupported_fetch",
                hint="supported are Url (file, http, https) and FilesGlob",
            )


def template_variables(step: FetchStep) -> tuple[str, ...]:
    """Name the variables of the environment that a step would read, for consent (design §8).

    Raises:
        BadInputError: A template is malformed.
    """
    if not isinstance(step, FetchStepUrl):
        return ()
    templates = [Template.parse(text, where) for where, text in _texts(step)]
    return tuple(dict.fromkeys(name for template in templates for name in template.variables))


def _fetch_url(
    step: FetchStepUrl, state: SourceState | None, ctx: FetchContext
) -> Fetched | Unchanged:
    if isinstance(step.cache, SourceCachingForever) and not ctx.is_first:
        return Unchanged("cache: forever, and the source was ingested before")
    url, *headers = expand_all(_texts(step), ctx.environment)
    scheme, colon, _ = url.text.partition(":")
    match scheme.lower() if colon else "":
        case "file":
            from .local import fetch_file  # noqa: PLC0415

            return fetch_file(step, url, state, ctx)
        case "http" | "https":
            from .http import fetch_http  # noqa: PLC0415

            return fetch_http(step, url, headers, state, ctx)
    raise BadInputError(
        f"{url.masked}: this release fetches file, http and https URLs only",
        reason="unsupported_scheme",
        hint="write a path of this machine as file:///path/to/file, or use FilesGlob",
    )


def _texts(step: FetchStepUrl) -> list[tuple[str, str]]:
    """List the texts of a step that may be templates, each with what it is."""
    headers = [(f"header {header.name}", header.value) for header in step.headers or ()]
    return [("url", step.url), *headers]
