"""URLs of repositories and of datasets in them (sync-protocols.md §1)."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from odf.errors import BadInputError
from odf.repo.layout import DatasetStores
from odf.store.http import HttpClient, with_slash

_SCHEMES: Final = ("file", "http", "https")
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


class RepositoryUrlError(BadInputError):
    """A URL that cannot be a repository or a dataset in one."""

    kind = "url"


def parse_repository_url(text: str) -> str:
    """Check the URL of a repository or dataset, and give it the slash that names are added to.

    Args:
        text: `file:///folder`, `http://…`, `https://…`, or the path of a folder.

    Raises:
        RepositoryUrlError: Another scheme, or no URL.
    """
    if "://" not in text and text.strip() and "\0" not in text:
        text = _absolute(Path(text)).as_uri()
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise RepositoryUrlError(f"{text!r} is not a URL: {error}") from error
    if parts.scheme not in _SCHEMES:
        raise RepositoryUrlError(
            f"{text!r}: {_scheme(parts)} repositories are not supported, wanted "
            "file://, http:// or https://",
            hint="a folder is its path, or file:///the/whole/path",
        )
    if problem := _problem(text, parts):
        raise RepositoryUrlError(f"{text!r}: {problem}")
    return with_slash(text)


def _absolute(path: Path) -> Path:
    """Return the whole path of a folder without `..`; links behind the last `..` stay links."""
    parts = path.absolute().parts
    if ".." not in parts:
        return path.absolute()
    upwards = len(parts) - parts[::-1].index("..")
    return Path(*parts[:upwards]).resolve().joinpath(*parts[upwards:])


def _scheme(parts: SplitResult) -> str:
    return f"{parts.scheme}://" if parts.scheme else "such"


def _problem(text: str, parts: SplitResult) -> str | None:
    if _CONTROL.search(text):
        return "blanks and control characters are written as %20 and the like"
    if parts.query or parts.fragment:
        return "a repository has no query and no fragment"
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            return "a folder of another machine cannot be reached: wanted file:///…"
        if not parts.path.startswith("/") or "\0" in unquote(parts.path):
            return "wanted the whole path of a folder"
    elif not parts.hostname:
        return "no host"
    elif parts.username or parts.password:
        return "credentials do not belong into a URL: it is stored and printed"
    return None


def folder_of(url: str) -> Path | None:
    """Return the folder of a `file://` URL; None for other URLs."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def source_at(url: str, client: HttpClient) -> DatasetStores:
    """Return the stores of somebody's dataset, to be read; nothing it says is believed.

    Args:
        url: `file://`, `http://` or `https://`; see `parse_repository_url`.
        client: How to ask web servers.
    """
    url = parse_repository_url(url)
    folder = folder_of(url)
    if folder is None:
        return DatasetStores.http(url, client)
    return DatasetStores.local(folder, name=url, cached=False)


def target_at(url: str, *, command: str = "odf") -> DatasetStores:
    """Return the stores of a dataset to be written to.

    Args:
        url: `file://`; plain web servers are read only.
        command: What this process is doing, for others who find the dataset locked.

    Raises:
        RepositoryUrlError: The URL is not that of a folder.
    """
    url = parse_repository_url(url)
    folder = folder_of(url)
    if folder is None:
        raise RepositoryUrlError(
            f"{url}: a plain web server can be read but not written",
            hint="push to a folder (file://) that the web server serves",
        )
    # What such a folder says about its own chain state is not believed: others write there too.
    return DatasetStores.local(folder, name=url, command=command, cached=False)
