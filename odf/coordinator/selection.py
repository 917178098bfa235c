"""From what a person typed to datasets: names, DIDs, patterns, repositories' datasets, URLs."""

from collections.abc import Sequence
from dataclasses import dataclass

from odf.coordinator.context import Context
from odf.errors import NotFoundError, UsageError
from odf.metadata.identity import (
    AmbiguousAlias,
    DatasetAlias,
    DatasetID,
    DatasetPattern,
    IdentityError,
    is_pattern,
    parse_dataset_ref,
    parse_dataset_ref_any,
)
from odf.workspace.workspace import DatasetHandle


@dataclass(frozen=True, slots=True)
class Remote:
    """A dataset elsewhere.

    Attributes:
        text: As it was typed: `repo/name`, `repo/account/name`, a URL, or the path of a folder.
    """

    text: str


_A_NAME = "a name has letters, digits and dashes, in parts joined by dots: com.example.my-data"


def is_path(text: str) -> bool:
    """Tell whether a person means a folder: only what cannot be a name is taken for one."""
    return text in {".", ".."} or text.startswith(("/", "./", "../"))


def check_reference(text: str) -> None:
    """Refuse what names no dataset, here or elsewhere.

    Args:
        text: A name, DID, pattern, `repo/name`, URL or path, as it was typed.

    Raises:
        UsageError: It is none of them.
    """
    if is_path(text):
        return
    try:
        if is_pattern(text):
            DatasetPattern.parse(text)
        else:
            parse_dataset_ref_any(text)
    except IdentityError as error:
        raise _no_name(text, error, "did:odf:…, REPO/NAME, a URL or ./folder") from error


def check_local_reference(text: str) -> None:
    """Refuse what cannot name one dataset of a workspace.

    Raises:
        UsageError: It is neither a name nor a DID.
    """
    try:
        parse_dataset_ref(text)
    except IdentityError as error:
        raise _no_name(text, error, "did:odf:…") from error


def parse_alias(text: str) -> DatasetAlias:
    """Read the name that a dataset shall have.

    Raises:
        UsageError: It is no name.
    """
    try:
        return DatasetAlias.parse(text)
    except IdentityError as error:
        raise UsageError(f"{text!r} is not a name for a dataset", hint=_A_NAME) from error


def _no_name(text: str, error: IdentityError, others: str) -> UsageError:
    if text.startswith("did:"):
        return UsageError(error.message, hint="odf list --wide shows the identities of datasets")
    return UsageError(f"{text!r} does not name a dataset", hint=f"{_A_NAME}; or write {others}")


def select(
    ctx: Context, refs: Sequence[str], *, everything: bool
) -> tuple[list[DatasetHandle], list[Remote]]:
    """Find what was typed.

    Args:
        ctx: The workspace.
        refs: What was typed.
        everything: Take all datasets of the workspace instead.

    Returns:
        Datasets of this workspace, without doubles, and datasets elsewhere.

    Raises:
        NotFoundError: If a local name is unknown, or a pattern matches nothing.
        UsageError: If something cannot be read as a reference.
    """
    if everything:
        return list(ctx.workspace.datasets()), []
    local: dict[DatasetID, DatasetHandle] = {}
    remote: list[Remote] = []
    for text in refs:
        check_reference(text)
        if is_pattern(text) and not is_path(text):
            for handle in _matching(ctx, text):
                local.setdefault(handle.id, handle)
            continue
        if is_remote(ctx, text):
            remote.append(Remote(text))
            continue
        handle = _resolve(ctx, text)
        local.setdefault(handle.id, handle)
    return list(local.values()), remote


def select_local(
    ctx: Context, refs: Sequence[str], *, everything: bool = False
) -> list[DatasetHandle]:
    """Find datasets of this workspace only.

    Raises:
        NotFoundError: If a name is unknown.
        UsageError: If a reference names a dataset elsewhere, or nothing was asked for.
    """
    if everything == bool(refs):
        raise UsageError("say either which datasets or --all")
    local, remote = select(ctx, refs, everything=everything)
    if remote:
        raise UsageError(
            f"{remote[0].text} is not a dataset of this workspace",
            hint=f"pull it first: odf pull {remote[0].text}",
        )
    return local


def is_remote(ctx: Context, text: str) -> bool:
    """Say whether a reference names a dataset elsewhere."""
    if is_path(text):
        return True
    repositories = {str(repository.name) for repository in ctx.workspace.repositories.list()}
    found = parse_dataset_ref_any(text, repositories)
    return not isinstance(found, DatasetID | DatasetAlias | AmbiguousAlias)


def _resolve(ctx: Context, text: str) -> DatasetHandle:
    try:
        return ctx.workspace.resolve(text)
    except NotFoundError as error:
        account, slash, _ = text.partition("/")
        if not slash:
            raise
        hint = f"if {account} is a repository, register it: odf repo add {account} URL"
        raise NotFoundError(error.message, hint=hint) from error


def _matching(ctx: Context, text: str) -> list[DatasetHandle]:
    found = ctx.workspace.matching(DatasetPattern.parse(text))
    if not found:
        raise NotFoundError(f"no dataset matches {text}", hint="odf list shows all datasets")
    return found
