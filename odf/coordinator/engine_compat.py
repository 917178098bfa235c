"""`odf engine compat`: may another release of an engine stand in for the one of a transform?

A transform is pinned to a release, whose results nobody promises of another one (spec "Engine
Deprecation"). That another one gives the same results *for this dataset* can be found out: by
running its whole history again. What was found is kept with one's own dataset as an attachment,
where everybody who gets the dataset has it, and for datasets of others in the workspace.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from odf.coordinator.compat_record import (
    ATTACHMENT,
    KIND,
    compatible_releases,
    record_path,
)
from odf.coordinator.context import Context
from odf.coordinator.engines import transform_surroundings
from odf.coordinator.lineage import inputs_of
from odf.coordinator.reading import is_own
from odf.errors import BadInputError, EngineUnavailableError, IntegrityError
from odf.metadata.model import (
    AttachmentEmbedded,
    AttachmentsEmbedded,
    SetAttachments,
    TransformSql,
)
from odf.metadata.multiformats import Multihash
from odf.protocol.releases import RELEASES
from odf.repo.update import next_time
from odf.transform.verify import replay
from odf.workspace.settings_files import write_manifest
from odf.workspace.workspace import DatasetHandle

if TYPE_CHECKING:
    from odf.runtimes.client import EngineClient


@dataclass(frozen=True, slots=True)
class CompatibilityReport:
    """What running a history with another release showed.

    Attributes:
        handle: The dataset.
        pinned: The release that its transform is pinned to.
        release: The one that it was run with.
        steps: Steps that were run again.
        head: Its head after; moved if the finding became an attachment.
        recorded: Whether the finding is new.
    """

    handle: DatasetHandle
    pinned: str
    release: str
    steps: int
    head: Multihash | None
    recorded: bool


def check_compatibility(ctx: Context, ref: str, release: str) -> CompatibilityReport:
    """Run the whole history of a dataset with a release, and record that it fits.

    Args:
        ctx: The workspace.
        ref: Name or identity of a derivative dataset.
        release: The release, as transforms are pinned to it.

    Raises:
        NotFoundError: There is no such dataset.
        BadInputError: It is not derived, or its transform is pinned to nothing.
        EngineUnavailableError: The release is not the one that is here.
        IntegrityError: It gives other results, or some step could not be run again.
    """
    handle = ctx.workspace.resolve(ref)
    state = handle.dataset.state()
    if state.transform is None:
        raise BadInputError(
            f"{handle.alias} is not derived: no engine made its rows", reason="root_dataset"
        )
    transform = state.transform.transform
    if transform.version is None:
        raise BadInputError(
            f"{handle.alias}: its transform names no release of its engine", reason="unpinned"
        )
    here = RELEASES.get(transform.engine.lower())
    if release != here:
        raise EngineUnavailableError(
            f"{handle.alias}: the engine {transform.engine} is here in the release "
            f"{here or 'of no known name'}, not in {release}",
            hint="install the release of odf that has this engine",
        )
    steps = _replayed(ctx, handle)
    if steps == 0:
        raise BadInputError(
            f"{handle.alias} has no steps yet, so nothing can be compared",
            reason="no_data",
            hint=f"odf pull {handle.alias}",
        )
    known = compatible_releases(handle).get(transform.version, frozenset())
    recorded = release not in {transform.version, *known}
    if recorded:
        _record(ctx, handle, transform.version, release)
    return CompatibilityReport(
        handle, transform.version, release, steps, handle.dataset.head(), recorded
    )


def _replayed(ctx: Context, handle: DatasetHandle) -> int:
    """Run every step again with whatever release is here; return how many there are."""

    def start(transform: TransformSql) -> "EngineClient":
        return ctx.engines.client(
            transform.engine, dataset=str(handle.alias), trusted=is_own(ctx, handle)
        )

    for source in inputs_of(handle):
        ctx.workspace.resolve(str(source))
    steps = 0
    for step in replay(handle, replace(transform_surroundings(ctx, handle), engine=start)):
        if step.unchecked or step.differences:
            raise IntegrityError(
                f"{handle.alias}: block {step.sequence_number} comes out otherwise: "
                f"{step.unchecked or step.differences[0]}",
                hint="the releases are not compatible for this dataset; nothing was recorded",
                details={"block": str(step.block)},
            )
        steps += 1
    return steps


def _record(ctx: Context, handle: DatasetHandle, pinned: str, release: str) -> None:
    known = {name: set(releases) for name, releases in compatible_releases(handle).items()}
    known.setdefault(pinned, set()).add(release)
    content = {name: sorted(releases) for name, releases in sorted(known.items())}
    if not is_own(ctx, handle):
        write_manifest(record_path(handle), KIND, {"compatible": content})
        return
    with handle.dataset.lock(ctx.settings.lock_timeout):
        state = handle.dataset.state()
        others = state.attachments.attachments.items if state.attachments else ()
        made = AttachmentEmbedded(ATTACHMENT, json.dumps({"compatible": content}, indent=2) + "\n")
        items = (*(item for item in others if item.path != ATTACHMENT), made)
        event = SetAttachments(AttachmentsEmbedded(items))
        now = next_time(state, ctx.clock)
        handle.dataset.commit([event], expected_head=state.head, system_time=now)
