"""`odf add`: from manifests to datasets (chain-rules.md §4).

Everything is checked before anything is written: all manifests are read, put into order, turned
into events, and every event is tried against the rules of the chain it goes into; queries are
checked by the engine that will run them. Then the datasets are created or extended, and if one of
them cannot be, those created before it are taken away again.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from odf.coordinator.consent import ConsentError, Grants, keep, obtain, permitted
from odf.coordinator.context import Context
from odf.coordinator.delete import Confirm, confirmed, loss, refuse_in_use
from odf.coordinator.drafts import Draft, FindInput, draft_new, with_checked_queries
from odf.coordinator.engines import with_pinned_images
from odf.coordinator.lineage import inputs_of
from odf.coordinator.ordering import inputs_first
from odf.coordinator.query_record import keep_query
from odf.coordinator.replace import set_aside
from odf.coordinator.results import AddAction, AddedDataset, AddReport
from odf.coordinator.update import draft_update
from odf.errors import ConflictError, ManifestError, NotFoundError, OdfError
from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetAlias, DatasetID, parse_dataset_ref
from odf.metadata.model import DatasetSnapshot, SetPollingSource, SetTransform, Timestamp
from odf.metadata.multiformats import Multihash
from odf.metadata.normalize import input_aliases
from odf.metadata.yaml import load_manifests
from odf.workspace.keys import DraftKey
from odf.workspace.workspace import DatasetHandle


class Existing(StrEnum):
    """What to do about a manifest whose dataset is there already."""

    FAIL = "fail"
    SKIP = "skip"
    UPDATE = "update"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class ManifestText:
    """A manifest as it was read.

    Attributes:
        source: What to call it in messages: the file's path, or `-`.
        text: Its content.
    """

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class AddOptions:
    """How `add_manifests` goes about it.

    Attributes:
        existing: What to do about datasets that are there already.
        dry_run: Check everything, write nothing.
        confirm: Asked before data is lost by `Existing.REPLACE`; None where nobody can be asked.
        allow_recompute: Accept queries that are recomputed over the whole history in every run.
    """

    existing: Existing = Existing.FAIL
    dry_run: bool = False
    confirm: Confirm | None = None
    allow_recompute: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    """What one command has to do: manifests, and the datasets that they meet."""

    snapshots: Sequence[tuple[str, DatasetSnapshot]]
    handles: Mapping[DatasetAlias, DatasetHandle]
    options: AddOptions
    system_time: Timestamp
    keys: dict[DatasetAlias, DraftKey] = field(default_factory=dict)

    def met(self, name: DatasetAlias) -> DatasetHandle | None:
        """The dataset that a manifest's name belongs to already, if it stays."""
        return None if self.options.existing is Existing.REPLACE else self.handles.get(name)

    @property
    def replaced(self) -> list[DatasetHandle]:
        """The datasets that have to go."""
        if self.options.existing is not Existing.REPLACE:
            return []
        return [
            self.handles[snapshot.name]
            for _, snapshot in self.snapshots
            if snapshot.name in self.handles
        ]


def add_manifests(
    ctx: Context,
    manifests: Sequence[ManifestText],
    grants: Grants | None = None,
    options: AddOptions | None = None,
) -> AddReport:
    """Create, extend or replace the datasets that manifests describe: all of them, or none.

    Args:
        ctx: Where to create them.
        manifests: Texts of one or more YAML documents each.
        grants: What the user agrees to that the manifests read and run; nothing if None.
        options: What to do about datasets that exist; by default they are an error.

    Raises:
        ManifestError: If a manifest cannot be read; lists the problems of all of them.
        ConflictError: If a name is taken, in the workspace or among the manifests; if a dataset
            to update is of another kind or is pulled from elsewhere; if others are derived from
            one to replace.
        ConsentError: If the user does not agree to what the manifests read and run.
        NotConfirmedError: If datasets would be replaced, and nobody said that this is wanted.
        NotFoundError: If inputs do not exist; lists them all.
        BadInputError: If datasets depend on each other in a circle, or a changed query takes away
            a column that the dataset has.
        RuleViolationError: If an event may not stand where it stands.
        InvalidQueryError: If a query is not accepted.
        EngineUnavailableError: If a query cannot be checked because no engine starts.
    """
    options = options or AddOptions()
    snapshots = [
        (source, with_pinned_images(ctx, snapshot)) for source, snapshot in _read_all(manifests)
    ]
    handles = {handle.alias: handle for handle in ctx.workspace.datasets()}
    _check_names(snapshots, handles, options.existing)
    job = _Job(snapshots, handles, options, ctx.now())
    refuse_in_use(ctx, job.replaced, "replaced")
    skipped = [_skipped(job.handles[name]) for name in _names_to_skip(job)]
    # Before the engine, so that nobody has to wait for the questions.
    if not options.dry_run:
        if job.replaced:
            confirmed([loss(ctx, handle) for handle in job.replaced], options.confirm)
        obtain(_sources(job), grants or Grants())
    drafts = _draft_all(ctx, job)
    if options.dry_run:
        return AddReport((*skipped, *(_described(ctx, draft) for draft in drafts)), dry_run=True)
    return AddReport((*skipped, *_carry_out(ctx, job, drafts)))


# --- reading -----------------------------------------------------------------------------------


def _read_all(manifests: Sequence[ManifestText]) -> list[tuple[str, DatasetSnapshot]]:
    found: list[tuple[str, DatasetSnapshot]] = []
    problems: list[str] = []
    hint = None
    for manifest in manifests:
        try:
            snapshots = load_manifests(manifest.text, manifest.source)
        except ManifestError as error:
            problems += error.problems or (error.message,)
            hint = hint or error.hint
        else:
            found += [(manifest.source, snapshot) for snapshot in snapshots]
    if len(problems) == 1:
        raise ManifestError(problems[0], reason="manifest", hint=hint)
    if problems:
        raise ManifestError(
            f"{len(problems)} problems in the manifests",
            reason="manifest",
            problems=problems,
            hint=hint,
        )
    return found


def _check_names(
    snapshots: Sequence[tuple[str, DatasetSnapshot]],
    handles: Mapping[DatasetAlias, DatasetHandle],
    existing: Existing,
) -> None:
    seen: dict[DatasetAlias, str] = {}
    for source, snapshot in snapshots:
        if existing is Existing.FAIL and snapshot.name in handles:
            raise ConflictError(
                f"{source}: dataset {snapshot.name} already exists in this workspace",
                hint="give it another name; or apply what the manifest changes with --update, "
                "leave it alone with --if-exists skip, or make it anew with --replace",
            )
        if snapshot.name in seen:
            raise ConflictError(
                f"{source}: dataset {snapshot.name} is already described in {seen[snapshot.name]}",
                hint="give one of them another name",
            )
        seen[snapshot.name] = source


def _names_to_skip(job: _Job) -> list[DatasetAlias]:
    if job.options.existing is not Existing.SKIP:
        return []
    return [snapshot.name for _, snapshot in job.snapshots if snapshot.name in job.handles]


def _sources(job: _Job) -> list[tuple[DatasetAlias, SetPollingSource]]:
    """List the sources that manifests describe and that nobody agreed to yet."""
    skipped = _names_to_skip(job)
    return [
        (snapshot.name, event)
        for _, snapshot in job.snapshots
        for event in snapshot.metadata
        if isinstance(event, SetPollingSource)
        and snapshot.name not in skipped
        and not _is_permitted(job.met(snapshot.name), event)
    ]


def _is_permitted(handle: DatasetHandle | None, source: SetPollingSource) -> bool:
    """Whether the user agreed to all that a source does when it was added."""
    if handle is None:
        return False
    try:
        permitted(handle, source, {})
    except ConsentError:
        return False
    return True


# --- drafting ----------------------------------------------------------------------------------


def _inputs_among(snapshots: Sequence[tuple[str, DatasetSnapshot]], index: int) -> list[int]:
    """Positions of the manifests that the manifest at `index` has as inputs."""
    position = {snapshot.name: place for place, (_, snapshot) in enumerate(snapshots)}
    return [position[alias] for alias in input_aliases(snapshots[index][1]) if alias in position]


def _draft_all(ctx: Context, job: _Job) -> list[Draft]:
    """Turn manifests into drafts, inputs first."""
    snapshots = job.snapshots
    ordered = inputs_first(
        list(range(len(snapshots))),
        lambda index: _inputs_among(snapshots, index),
        lambda index: str(snapshots[index][1].name),
    )
    skipped = _names_to_skip(job)
    for _, snapshot in snapshots:
        if job.met(snapshot.name) is None:
            job.keys[snapshot.name] = ctx.keys.draft()
    find = _finder(ctx, job)
    drafts: dict[DatasetID, Draft] = {}
    for index in ordered:
        source, snapshot = snapshots[index]
        if snapshot.name not in skipped:
            draft = _draft(job, source, snapshot, find)
            drafts[draft.id] = draft
    _check_circles(ctx, drafts)
    for identity, draft in drafts.items():
        drafts[identity] = with_checked_queries(
            ctx, draft, drafts, allow_recompute=job.options.allow_recompute
        )
    return list(drafts.values())


def _draft(job: _Job, source: str, snapshot: DatasetSnapshot, find: FindInput) -> Draft:
    handle = job.met(snapshot.name)
    if handle is not None:
        now = _not_before(job.system_time, handle.dataset.state())
        return draft_update(source, snapshot, handle, find, now)
    draft = draft_new(source, snapshot, job.keys[snapshot.name].id, find, job.system_time)
    if snapshot.name in job.handles:
        return replace(draft, action=AddAction.REPLACED, handle=job.handles[snapshot.name])
    return draft


def _finder(ctx: Context, job: _Job) -> FindInput:
    """Make what finds inputs among the new datasets and in the workspace."""
    gone = {handle.id for handle in job.replaced}

    def find(text: str) -> DatasetID | None:
        ref = parse_dataset_ref(text)
        if isinstance(ref, DatasetAlias) and ref in job.keys:
            return job.keys[ref].id
        try:
            found = ctx.workspace.resolve(ref).id
        except NotFoundError:
            return None
        return None if found in gone else found

    return find


def _check_circles(ctx: Context, drafts: Mapping[DatasetID, Draft]) -> None:
    """Refuse changed inputs by which a dataset would be derived from itself."""
    if not any(
        draft.handle is not None and draft.state.transform != draft.before.transform
        for draft in drafts.values()
    ):
        return
    handles = {handle.id: handle for handle in ctx.workspace.datasets()}

    def inputs(identity: DatasetID) -> list[DatasetID]:
        if identity not in drafts:
            return inputs_of(handles[identity])
        transform: SetTransform | None = drafts[identity].state.transform
        return [DatasetID.parse(one.dataset_ref) for one in transform.inputs] if transform else []

    names = {identity: str(handle.alias) for identity, handle in handles.items()}
    names |= {identity: str(draft.alias) for identity, draft in drafts.items()}
    inputs_first(list(names), inputs, names.__getitem__)


# --- writing -----------------------------------------------------------------------------------


def _carry_out(ctx: Context, job: _Job, drafts: Sequence[Draft]) -> list[AddedDataset]:
    """Create what is new, then extend what is there.

    A head that has moved cannot be taken back. So extending comes last, and every dataset that is
    to be extended is locked, and known to be the one that was checked, before the first one moves.
    """
    updates = [draft for draft in drafts if draft.action is AddAction.UPDATED]
    with contextlib.ExitStack() as stack:
        for draft in updates:
            stack.enter_context(_held(ctx, draft))
        stack.enter_context(set_aside(ctx, job.replaced))
        done = _write(ctx, job, [draft for draft in drafts if draft.is_new], updates)
    for draft in drafts:
        if not draft.is_new and draft.alias in _names_with_source(job):
            _keep_consent(ctx, draft)
    return [done.get(draft.id) or _described(ctx, draft) for draft in drafts]


def _write(
    ctx: Context, job: _Job, new: Sequence[Draft], updates: Sequence[Draft]
) -> dict[DatasetID, AddedDataset]:
    done: dict[DatasetID, AddedDataset] = {}
    for key in job.keys.values():
        ctx.keys.keep(key)
    try:
        for draft in new:
            done[draft.id] = _create(ctx, draft, job.system_time)
        for draft in updates:
            done[draft.id] = _extend(ctx, draft, job.system_time)
    except BaseException:
        # What was extended may be derived from what was created.
        if not any(draft.id in done for draft in updates):
            for identity in reversed(done):
                ctx.workspace.remove_dataset(identity)
        raise
    return done


@contextlib.contextmanager
def _held(ctx: Context, draft: Draft) -> Iterator[None]:
    """Keep other writers away from a dataset that is to be extended."""
    if draft.handle is None:
        raise OdfError(f"dataset {draft.alias} is to be extended and is not here")
    dataset = draft.handle.dataset
    with dataset.lock(ctx.settings.lock_timeout):
        if dataset.head() != draft.before.head:
            raise ConflictError(
                f"{draft.alias}: the dataset changed in the meantime", hint="run the command again"
            )
        yield


def _create(ctx: Context, draft: Draft, system_time: Timestamp) -> AddedDataset:
    handle = ctx.workspace.create_dataset(draft.alias, draft.events, system_time=system_time)
    if draft.state.polling_source is not None:
        try:
            keep(handle, draft.state.polling_source)
        except BaseException:
            ctx.workspace.remove_dataset(handle.id)
            raise
    _keep_query(handle, draft)
    return replace(_described(ctx, draft), head=_head(handle))


def _extend(ctx: Context, draft: Draft, system_time: Timestamp) -> AddedDataset:
    if draft.handle is None:
        raise OdfError(f"dataset {draft.alias} is to be extended and is not here")
    dataset = draft.handle.dataset
    now = _not_before(system_time, draft.before)
    dataset.commit(draft.events, expected_head=draft.before.head, system_time=now)
    _keep_query(draft.handle, draft)
    return replace(_described(ctx, draft), head=_head(draft.handle))


def _keep_consent(ctx: Context, draft: Draft) -> None:
    """Write down what was agreed to about the source that a manifest describes."""
    source = draft.state.polling_source
    if source is not None:
        keep(ctx.workspace.resolve(draft.id), source)


def _not_before(time: Timestamp, state: ChainState) -> Timestamp:
    """Return a time at which a chain can go on, should the clock have stepped back."""
    return time if state.system_time is None else max(time, state.system_time)


def _keep_query(handle: DatasetHandle, draft: Draft) -> None:
    """Write down what is known about a query; a dataset without that is checked when pulled."""
    if draft.query is not None and draft.state.transform is not None:
        keep_query(handle, draft.state.transform, draft.query)


def _names_with_source(job: _Job) -> set[DatasetAlias]:
    return {
        snapshot.name
        for _, snapshot in job.snapshots
        if any(isinstance(event, SetPollingSource) for event in snapshot.metadata)
    }


def _head(handle: DatasetHandle) -> Multihash:
    head = handle.dataset.head()
    if head is None:
        raise OdfError(f"dataset {handle.alias} was written and has no head")
    return head


def _described(ctx: Context, draft: Draft) -> AddedDataset:
    """Say what is done, or would be done, to one dataset."""
    state = draft.state
    if state.head is None or state.kind is None:
        raise OdfError(f"dataset {draft.alias} has no seed")
    return AddedDataset(
        alias=draft.alias,
        id=draft.id,
        kind=state.kind,
        head=state.head,
        blocks=len(draft.events),
        query_class=draft.query.words if draft.query else None,
        warnings=draft.warnings,
        action=draft.action,
        changes=draft.changes,
        lost=loss(ctx, draft.handle)
        if draft.handle is not None and draft.action is AddAction.REPLACED
        else None,
    )


def _skipped(handle: DatasetHandle) -> AddedDataset:
    """Say that a dataset was left alone."""
    state = handle.dataset.state()
    if state.head is None or state.kind is None:
        raise OdfError(f"dataset {handle.alias} has no seed")
    return AddedDataset(
        alias=handle.alias,
        id=handle.id,
        kind=state.kind,
        head=state.head,
        blocks=0,
        action=AddAction.SKIPPED,
    )
