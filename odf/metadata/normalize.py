"""From what people write to what chains hold (chain-rules.md §4, the parts without a workspace).

Short forms are expanded, references become identifiers, and a snapshot is checked for events that
cannot be in one, before anything is created.
"""

from collections.abc import Callable
from dataclasses import replace

from odf.errors import BadInputError, NotFoundError
from odf.metadata.identity import DatasetAlias, DatasetID, IdentityError, parse_dataset_ref
from odf.metadata.model import (
    AddData,
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)

Resolver = Callable[[str], DatasetID | None]
"""Finds the identifier of a dataset by a reference as people write it."""

_GENERATED = (AddData, ExecuteTransform, DisablePollingSource, DisablePushSource)


class InvalidSnapshotError(BadInputError):
    """A manifest that is well-formed and makes no dataset."""


class MissingInputsError(NotFoundError):
    """A derivative dataset refers to inputs that are not in the workspace."""


def normalize_transform(transform: TransformSql) -> TransformSql:
    """Turn the short form `query` into `queries`.

    Raises:
        InvalidSnapshotError: If both or none are given, or several queries have no alias.
    """
    if transform.query is not None and transform.queries is not None:
        raise InvalidSnapshotError("a transform has both `query` and `queries`, wanted one")
    if transform.query is not None:
        return replace(transform, query=None, queries=(SqlQueryStep(query=transform.query),))
    if not transform.queries:
        raise InvalidSnapshotError("a transform has neither `query` nor `queries`")
    unnamed = sum(step.alias is None for step in transform.queries)
    if unnamed > 1:
        raise InvalidSnapshotError(
            f"{unnamed} queries of a transform have no alias, wanted one: the last, whose result "
            "is the output"
        )
    return transform


def normalize_event(event: MetadataEvent) -> MetadataEvent:
    """Expand the short forms inside an event.

    Raises:
        InvalidSnapshotError: As `normalize_transform`.
    """
    match event:
        case SetTransform():
            return replace(event, transform=normalize_transform(event.transform))
        case (
            SetPollingSource(preprocess=TransformSql() as transform)
            | AddPushSource(preprocess=TransformSql() as transform)
        ):
            return replace(event, preprocess=normalize_transform(transform))
        case _:
            return event


def resolve_inputs(event: SetTransform, resolve: Resolver) -> tuple[SetTransform, tuple[str, ...]]:
    """Replace references to inputs by identifiers.

    An input without an alias gets its reference as written for one.

    Args:
        event: The event.
        resolve: Finds identifiers; returns `None` for what does not exist.

    Returns:
        The event with what could be resolved, and the references that could not.
    """
    inputs: list[TransformInput] = []
    missing: list[str] = []
    for one in event.inputs:
        found = resolve(one.dataset_ref)
        if found is None:
            missing.append(one.dataset_ref)
        ref = one.dataset_ref if found is None else str(found)
        alias = one.dataset_ref if one.alias is None else one.alias
        inputs.append(TransformInput(ref, alias))
    return replace(event, inputs=tuple(inputs)), tuple(missing)


def snapshot_events(snapshot: DatasetSnapshot, resolve: Resolver) -> tuple[MetadataEvent, ...]:
    """Return the events that follow the seed of a new dataset, in the order written.

    Args:
        snapshot: The manifest's content.
        resolve: Finds the identifiers of inputs.

    Raises:
        InvalidSnapshotError: If an event cannot be in a snapshot of this kind.
        MissingInputsError: Naming all inputs that do not exist.
    """
    events: list[MetadataEvent] = []
    missing: list[str] = []
    for index, event in enumerate(snapshot.metadata):
        where = f"dataset {snapshot.name}, metadata[{index}] ({type(event).__name__})"
        _check_event(snapshot.kind, event, where)
        try:
            normal = normalize_event(event)
        except InvalidSnapshotError as error:
            raise InvalidSnapshotError(f"{where}: {error.message}") from error
        if isinstance(normal, SetTransform):
            normal, unresolved = resolve_inputs(normal, resolve)
            missing += unresolved
        events.append(normal)
    if missing:
        raise MissingInputsError(
            f"dataset {snapshot.name} refers to inputs that do not exist: {', '.join(missing)}",
            hint="add or pull them first",
            details={"missing": missing},
        )
    return tuple(events)


def _check_event(kind: DatasetKind, event: MetadataEvent, where: str) -> None:
    if isinstance(event, Seed):
        raise InvalidSnapshotError(f"{where}: the seed is generated and cannot be given")
    if isinstance(event, _GENERATED):
        raise InvalidSnapshotError(f"{where}: the event cannot be in a manifest")
    if isinstance(event, SetPollingSource | AddPushSource) and kind is not DatasetKind.ROOT:
        raise InvalidSnapshotError(
            f"{where}: a source belongs to `kind: Root`, got `kind: {kind.label}`"
        )
    if isinstance(event, SetTransform) and kind is not DatasetKind.DERIVATIVE:
        raise InvalidSnapshotError(
            f"{where}: a transform belongs to `kind: Derivative`, got `kind: {kind.label}`"
        )


def input_aliases(snapshot: DatasetSnapshot) -> tuple[DatasetAlias, ...]:
    """Return the inputs that a snapshot names by alias."""
    found: list[DatasetAlias] = []
    for event in snapshot.metadata:
        if isinstance(event, SetTransform):
            for one in event.inputs:
                try:
                    ref = parse_dataset_ref(one.dataset_ref)
                except IdentityError:
                    continue
                if isinstance(ref, DatasetAlias):
                    found.append(ref)
    return tuple(found)
