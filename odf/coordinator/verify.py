"""`odf verify`: every hash, every rule, and every derivation computed again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from odf.coordinator.context import Context
from odf.coordinator.engines import transform_surroundings
from odf.coordinator.guard import guarded
from odf.coordinator.lineage import inputs_of, with_inputs
from odf.coordinator.ordering import inputs_first
from odf.coordinator.reading import slice_reader
from odf.coordinator.results import VerifiedDataset, VerifyFinding, VerifyReport
from odf.coordinator.selection import select_local
from odf.errors import NotFoundError
from odf.repo.verify import IntegrityReport, verify_integrity
from odf.transform.verify import ReplayedStep, replay
from odf.workspace.workspace import DatasetHandle


def verify(
    ctx: Context,
    refs: Sequence[str],
    *,
    everything: bool = False,
    recursive: bool = False,
    integrity_only: bool = False,
    blocks: range | None = None,
    done: Callable[[VerifiedDataset], None] | None = None,
) -> VerifyReport:
    """Check datasets of the workspace; goes on after the first that is wrong.

    Args:
        ctx: The workspace.
        refs: Names, DIDs or patterns.
        everything: All datasets of the workspace.
        recursive: The inputs of what is asked for, too, before it.
        integrity_only: Check hashes and rules, run no query.
        blocks: Sequence numbers of the blocks whose data is checked and whose steps are run again;
            all if not given. Chains are always checked as a whole.
        done: Told of each dataset as it ends.

    Raises:
        NotFoundError: If a name is unknown.
        UsageError: If nothing was asked for.

    A dataset that was asked for by name and ends before `blocks` begin is an error of that dataset.
    """
    handles = select_local(ctx, refs, everything=everything)
    asked = frozenset() if everything else frozenset(handle.id for handle in handles)
    if recursive:
        handles = with_inputs(ctx, handles)
    by_id = {handle.id: handle for handle in handles}
    ordered = inputs_first(
        list(by_id),
        lambda node: inputs_of(by_id[node]),
        lambda node: str(by_id[node].alias),
        allow_circles=True,
    )
    results = []
    for dataset_id in ordered:
        result = _verify_one(
            ctx,
            by_id[dataset_id],
            integrity_only=integrity_only,
            blocks=blocks,
            has_blocks=dataset_id in asked,
        )
        results.append(result)
        if done is not None:
            done(result)
    return VerifyReport(datasets=tuple(results))


def _verify_one(
    ctx: Context,
    handle: DatasetHandle,
    *,
    integrity_only: bool,
    blocks: range | None,
    has_blocks: bool,
) -> VerifiedDataset:
    started = time.monotonic()
    name = str(handle.alias)
    results = [VerifiedDataset(name=name, id=handle.id, valid=False)]

    def check() -> None:
        # What was found is kept when a later step fails: a forger could add one that does.
        ctx.progress(name, "checking hashes and rules")
        reader = slice_reader(ctx, handle)
        report = verify_integrity(handle.dataset, now=ctx.now(), blocks=blocks, reader=reader)
        results.append(_from_integrity(results[-1], report))
        if blocks is not None and has_blocks and results[-1].valid:
            _check_within(report, blocks)
        if results[-1].valid and not integrity_only:
            for step in replay(handle, transform_surroundings(ctx, handle), blocks=blocks):
                results.append(_with_step(results[-1], step))

    error = guarded(ctx, name, check)
    result = results[-1]
    if error is not None:
        result = replace(result, valid=False, error=error)
    return replace(result, seconds=time.monotonic() - started)


def _check_within(report: IntegrityReport, blocks: range) -> None:
    """Refuse blocks that a chain does not have: with nothing to check, all of it is right."""
    if blocks.start >= report.blocks:
        raise NotFoundError(
            f"there is no block {blocks.start}; the last one is {report.blocks - 1}",
            hint="odf log shows the blocks with their numbers",
        )


def _from_integrity(result: VerifiedDataset, report: IntegrityReport) -> VerifiedDataset:
    findings = tuple(
        VerifyFinding(
            severity=finding.severity,
            message=finding.message,
            block=finding.block,
            sequence_number=finding.sequence_number,
            object=finding.object,
        )
        for finding in report.findings
    )
    return replace(
        result,
        valid=all(finding.severity != "error" for finding in findings),
        blocks=report.blocks,
        objects=report.objects,
        findings=findings,
    )


def _with_step(result: VerifiedDataset, step: ReplayedStep) -> VerifiedDataset:
    findings = (*result.findings, *_from_replay(step))
    return replace(
        result,
        valid=all(finding.severity != "error" for finding in findings),
        replayed=result.replayed + (step.unchecked is None),
        findings=findings,
    )


def _from_replay(step: ReplayedStep) -> list[VerifyFinding]:
    if step.unchecked is not None:
        return [
            VerifyFinding(
                severity="unchecked",
                message=f"cannot be run again: {step.unchecked}",
                block=step.block,
                sequence_number=step.sequence_number,
            )
        ]
    found = [
        VerifyFinding(
            severity="error",
            message=f"not reproducible: {difference}",
            block=step.block,
            sequence_number=step.sequence_number,
        )
        for difference in step.differences
    ]
    if step.unpinned is not None:
        found.append(
            VerifyFinding(
                severity="warning",
                message=f"the transform names no release of its engine; {step.unpinned} ran it",
                block=step.block,
                sequence_number=step.sequence_number,
            )
        )
    return found
