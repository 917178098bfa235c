"""Mistakes in fetch steps that show before anything is fetched."""

import re
from pathlib import Path

from odf.errors import BadInputError
from odf.metadata.model import (
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
)

from .event_time import check_event_time
from .extras import need
from .templates import Template
from .texts import texts_of

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+")
_SCHEMES = ("file", "http", "https", "ftp", "ftps")


def check_step(step: FetchStep) -> tuple[str, ...]:
    """Look for mistakes in a step.

    Returns:
        What its author should know although the step is valid, for example that a package is
        missing here.

    Raises:
        BadInputError: The step can never work.
    """
    for where, text in texts_of(step):
        Template.parse(text, where)
    match step:
        case FetchStepUrl():
            return _check_url(step)
        case FetchStepFilesGlob():
            _check_glob(step)
        case FetchStepContainer():
            _check_container(step)
        case FetchStepMqtt():
            return _without("mqtt", "paho.mqtt.client", "fetch kind Mqtt") or _check_mqtt(step)
        case FetchStepEthereumLogs():
            return _without("ethereum", "sqlglot", "fetch kind EthereumLogs") or _check_ethereum(
                step
            )
    return ()


def _without(extra: str, module: str, what: str) -> tuple[str, ...]:
    """Warn of a package that is not here: the dataset may be pulled elsewhere."""
    try:
        need(extra, module, what)
    except BadInputError as error:
        return (f"{error.message}: {error.hint}",)
    return ()


def _check_glob(step: FetchStepFilesGlob) -> None:
    from .files_glob import check_order  # noqa: PLC0415 - pay for what is used
    from .glob_walk import GlobPattern  # noqa: PLC0415

    GlobPattern.parse(step.path, Path())
    check_event_time(step.event_time)
    check_order(step)


def _check_url(step: FetchStepUrl) -> tuple[str, ...]:
    check_event_time(step.event_time)
    if step.headers:
        from .http import check_header_name  # noqa: PLC0415 - pay for what is used

        for header in step.headers:
            check_header_name(header.name, step.url)
    scheme, colon, _ = step.url.partition(":")
    if "${{" in scheme or (colon and scheme.lower() in _SCHEMES):
        if step.headers and scheme.lower() in ("ftp", "ftps"):
            from .ftp import refuse_headers  # noqa: PLC0415 - pay for what is used

            refuse_headers(step.url)
        if step.headers and scheme.lower() == "file":
            return (f"{step.url}: headers do nothing there, only for http and https",)
        return ()
    known = ", ".join(_SCHEMES)
    if colon and _SCHEME.fullmatch(scheme):
        # Another implementation may be able to pull it.
        return (f"this release cannot pull {scheme}: URLs, only {known}",)
    raise BadInputError(
        f"{step.url}: this is no URL of one of the schemes {known}",
        reason="unsupported_scheme",
        hint="write a path of this machine as file:///path/to/file, or use FilesGlob",
    )


def _check_container(step: FetchStepContainer) -> None:
    from odf.runtimes.source_container import check_names  # noqa: PLC0415

    image = "templated" if "${{" in step.image else step.image
    check_names(image, step.command or (), [one.name for one in step.env or ()])


def _check_mqtt(step: FetchStepMqtt) -> tuple[str, ...]:
    from .mqtt import check_address  # noqa: PLC0415

    check_address(step)
    return ()


def _check_ethereum(step: FetchStepEthereumLogs) -> tuple[str, ...]:
    from .ethereum import parse_filter  # noqa: PLC0415

    parse_filter(step)
    return ()
