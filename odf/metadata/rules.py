"""Which block may follow in a chain (chain-rules.md §2).

Each rule is a small function of `(state, block)` with a name. Rules that the reference
implementation lacks are marked `ours`: they bind what is committed here (`strict`), while in
blocks made elsewhere they are findings. Where two releases of the reference differ, the stricter
one is ours, so that a received block may follow either.

Not checked here, because the chain alone cannot tell: that hashes, sizes and rows of files are
right (`verify`), that inputs and their blocks exist (planner), that the time is not in the future
(whoever receives the block knows the time).
"""

from collections.abc import Iterator
from typing import Final

from odf.errors import RuleViolationError
from odf.metadata import rule_data, rule_definitions, rule_header
from odf.metadata.chain import ChainState
from odf.metadata.model import MetadataBlock, UnknownEvent
from odf.metadata.rule_base import Rule, Violation

RULES: Final[tuple[Rule, ...]] = (
    Rule("seed-first", "1", rule_header.seed_first, header=True),
    Rule("seed-once", "2", rule_header.seed_once, header=True),
    Rule("previous-block", "3", rule_header.previous_block, header=True),
    Rule("sequence-start", "4", rule_header.sequence_start, header=True),
    Rule("sequence-step", "5", rule_header.sequence_step, header=True),
    Rule("time-monotonic", "6", rule_header.time_monotonic, header=True),
    Rule("opaque-chain", "-", rule_header.opaque_chain, ours=True, header=True),
    Rule("unknown-event", "-", rule_header.unknown_event, ours=True, header=True),
    Rule("event-fits-kind", "-", rule_header.event_fits_kind, ours=True),
    Rule("empty-add-data", "8", rule_data.empty_add_data),
    Rule("empty-execute-transform", "9", rule_data.empty_execute_transform),
    Rule("offset-start", "10", rule_data.offset_start),
    Rule("offset-order", "11", rule_data.offset_order),
    Rule("offset-continuity", "12", rule_data.offset_continuity),
    Rule("offset-first", "12", rule_data.offset_first, ours=True),
    Rule("watermark-monotonic", "7", rule_data.watermark_monotonic),
    Rule("checkpoint-continuity", "13", rule_data.checkpoint_continuity),
    Rule("schema-first", "14", rule_data.schema_first),
    Rule("add-data-advances", "15", rule_data.add_data_advances),
    Rule("transform-declared", "17", rule_data.transform_declared),
    Rule("transform-inputs", "18", rule_data.transform_inputs),
    Rule("input-block-interval", "19", rule_data.input_block_interval),
    Rule("input-offset-interval", "20", rule_data.input_offset_interval),
    Rule("input-block-continuity", "21", rule_data.input_block_continuity),
    Rule("input-offset-continuity", "22", rule_data.input_offset_continuity),
    Rule("input-offsets-need-blocks", "23", rule_data.input_offsets_need_blocks),
    Rule("input-first", "-", rule_data.input_first, ours=True),
    Rule("input-offsets-ordered", "-", rule_data.input_offsets_ordered, ours=True),
    Rule("execute-transform-advances", "16", rule_data.execute_transform_advances),
    Rule("transform-has-inputs", "24", rule_definitions.transform_has_inputs),
    Rule("transform-resolved", "25", rule_definitions.transform_resolved),
    Rule("transform-inputs-differ", "26", rule_definitions.transform_inputs_differ, ours=True),
    Rule("transform-aliases-differ", "-", rule_definitions.transform_aliases_differ, ours=True),
    Rule("transform-not-self", "-", rule_definitions.transform_not_self, ours=True),
    Rule("queries-normalized", "27", rule_definitions.queries_normalized),
    Rule("queries-present", "28", rule_definitions.queries_present),
    Rule("last-query-unnamed", "29", rule_definitions.last_query_unnamed),
    Rule("other-queries-named", "30", rule_definitions.other_queries_named),
    Rule("push-source-schema", "31", rule_definitions.push_source_schema, ours=True),
    Rule("push-excludes-polling", "32", rule_definitions.push_excludes_polling),
    Rule("polling-excludes-push", "33", rule_definitions.polling_excludes_push),
    Rule("definition-changes", "34", rule_definitions.definition_changes, ours=True),
    Rule("one-read-schema", "35", rule_definitions.one_read_schema, ours=True),
    Rule("ethereum-chain-named", "36", rule_definitions.ethereum_chain_named, ours=True),
    Rule("disable-active-source", "37", rule_definitions.disable_active_source, ours=True),
    Rule("vocabulary-before-data", "-", rule_definitions.vocabulary_before_data, ours=True),
    Rule("schema-readable", "-", rule_definitions.schema_readable, ours=True),
    Rule("schema-evolution", "38", rule_definitions.schema_evolution, ours=True),
)
"""All rules, in the order in which they are reported."""


def check_block(state: ChainState, block: MetadataBlock, *, strict: bool = True) -> None:
    """Refuse a block that may not follow.

    Args:
        state: What the chain says before the block.
        block: The block.
        strict: Whether the rules that the reference lacks count too: yes for what is committed
            here, no for what is received.

    Raises:
        RuleViolationError: Naming the first broken rule, the block, what was expected and got.
    """
    for rule, violation in broken_rules(state, block, strict=strict):
        raise violation_error(rule, block, violation)


def broken_rules(
    state: ChainState, block: MetadataBlock, *, strict: bool = True
) -> Iterator[tuple[Rule, Violation]]:
    """Find every rule that a block breaks, in the order of `RULES`.

    On a chain that is not understood, and for an event that is not, only the rules about the
    links apply.
    """
    understood = state.opaque is None and not isinstance(block.event, UnknownEvent)
    for rule in RULES:
        if (rule.ours and not strict) or not (rule.header or understood):
            continue
        violation = rule.check(state, block)
        if violation is not None:
            yield rule, violation


def violation_error(rule: Rule, block: MetadataBlock, violation: Violation) -> RuleViolationError:
    """Say what a block breaks, as an error."""
    expected, got = str(violation.expected), str(violation.got)
    where = f"block {block.sequence_number} ({rule_header.event_name(block)})"
    return RuleViolationError(
        rule.name,
        f"{where} breaks the rule {rule.name}: {violation.what}; expected {expected}, got {got}",
        hint=violation.hint,
        details={"block": block.sequence_number, "expected": expected, "got": got},
    )
