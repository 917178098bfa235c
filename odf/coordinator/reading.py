"""Which datasets' slices are read in this process, and which apart from it (docs/adr/0106)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from odf.coordinator.lineage import inputs_of
from odf.data.readers import OWN_READER, SliceReader
from odf.errors import OdfError
from odf.limits import READING_MEMORY
from odf.metadata.identity import DatasetID

if TYPE_CHECKING:
    from odf.coordinator.context import Context
    from odf.data.apart import ReaderApart
    from odf.workspace.workspace import DatasetHandle


def is_own(ctx: "Context", handle: "DatasetHandle") -> bool:
    """Say whether a dataset is one's own: its key is here and it is not pulled from elsewhere."""
    return ctx.keys.has(handle.id) and not handle.pull_aliases


def slice_reader(ctx: "Context", handle: "DatasetHandle") -> SliceReader:
    """Return what reads the slices of a dataset, and those that are proposed for it.

    Strangers' slices are read apart, and so is what engines make of them, however many steps
    later: a file that took over an engine could write one that takes over its reader.
    """
    return OWN_READER if _is_made_here(ctx, handle) else ctx.reader_of(handle)


def _is_made_here(ctx: "Context", handle: "DatasetHandle") -> bool:
    seen: set[DatasetID] = set()
    waiting = [handle]
    while waiting:
        one = waiting.pop()
        if one.id in seen:
            continue
        seen.add(one.id)
        try:
            if not is_own(ctx, one):
                return False
            waiting += [ctx.workspace.resolve(str(source)) for source in inputs_of(one)]
        except OdfError:  # an input that is not here, a record that cannot be read: nobody knows
            return False
    return True


def make_reader(ctx: "Context", handle: "DatasetHandle") -> "ReaderApart":
    """Make the reader of a stranger's dataset: in bubblewrap where that works, bound anyway."""
    from odf.data.apart import ENVIRONMENT, ReaderApart, unconfined  # noqa: PLC0415 - seldom needed
    from odf.runtimes.pool import archives_folder  # noqa: PLC0415
    from odf.runtimes.sandbox import Sandbox, SandboxLimits, SandboxMemory  # noqa: PLC0415

    memory = SandboxMemory(archives_folder(ctx.settings.cache_home))
    sandbox = Sandbox(ENVIRONMENT, limits=SandboxLimits(READING_MEMORY), memory=memory)
    folder = ctx.run_dir / "readers" / handle.id.multibase

    def confine(program: Sequence[str], place: Path) -> Sequence[str]:
        if sandbox.why_not() is not None:
            return unconfined(program, place)
        return sandbox.argv(place.parent, program, bind=["--bind", str(place), str(place)])

    return ReaderApart(folder, confine, does_not_start=memory.forget)
