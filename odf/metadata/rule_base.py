"""What a rule of the chain is."""

from collections.abc import Callable
from dataclasses import dataclass

from odf.metadata.chain import ChainState
from odf.metadata.identity import DatasetID, IdentityError
from odf.metadata.model import MetadataBlock


@dataclass(frozen=True, slots=True)
class Violation:
    """Why a block may not follow.

    Attributes:
        what: What is wrong, one clause.
        expected: What would be right.
        got: What the block has.
        hint: What to do about it.
    """

    what: str
    expected: object
    got: object
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A named condition on the next block of a chain.

    Attributes:
        name: Short name, shown in errors.
        rows: Rows of chain-rules.md §2; `-` for what that table does not have.
        check: Returns what is wrong, or `None`.
        ours: Whether the reference lacks the rule: it binds what is committed here, and is a
            finding, no reason to refuse, in blocks made elsewhere.
        header: Whether it can be checked without understanding the events of the chain.
    """

    name: str
    rows: str
    check: Callable[[ChainState, MetadataBlock], Violation | None]
    ours: bool = False
    header: bool = False


def canonical_ref(ref: str) -> str:
    """Return the canonical text of a dataset identifier, other references as they are."""
    try:
        return str(DatasetID.parse(ref))
    except IdentityError:
        return ref
