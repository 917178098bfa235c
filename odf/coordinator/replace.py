"""`odf add --replace`: a dataset goes, and one of the same name comes from a manifest."""

import contextlib
import secrets
from collections.abc import Iterator, Sequence

from odf.coordinator.context import Context
from odf.metadata.identity import DatasetAlias
from odf.workspace.workspace import DatasetHandle


@contextlib.contextmanager
def set_aside(ctx: Context, handles: Sequence[DatasetHandle]) -> Iterator[None]:
    """Take datasets out of the way; they go when the block ends, or come back when it fails.

    A process that is killed meanwhile leaves them under another name with all of their data, never
    neither the old nor the new.

    Args:
        ctx: The workspace.
        handles: The datasets, derivatives before their inputs.

    Raises:
        LockedError: Another process writes to one of them.
    """
    for handle in handles:  # a writer that is at work may finish first
        with handle.dataset.lock(ctx.settings.lock_timeout):
            pass
    mark = secrets.token_hex(4)
    renamed: list[DatasetHandle] = []
    try:
        for handle in handles:
            aside = DatasetAlias.parse(f"{handle.alias}.replaced-{mark}")
            ctx.workspace.rename_dataset(handle.id, aside)
            renamed.append(handle)
        yield
    except BaseException:
        for handle in reversed(renamed):
            ctx.workspace.rename_dataset(handle.id, handle.alias)
        raise
    for handle in handles:
        ctx.workspace.remove_dataset(handle.id)
