"""What a check of a dataset found."""

from dataclasses import dataclass
from enum import StrEnum

from odf.metadata.multiformats import Multihash


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """Something is not what the chain says."""

    WARNING = "warning"
    """Something is against rules of ours that other implementations do not have."""

    UNCHECKED = "unchecked"
    """Something could not be checked."""


@dataclass(frozen=True, slots=True)
class IntegrityFinding:
    """One thing that is wrong, or that could not be checked.

    Attributes:
        severity: How bad it is.
        message: What is wrong, with wanted and got.
        block: The block it was found at; None for the dataset as a whole.
        sequence_number: That block's number.
        object: The object concerned, as its path in the dataset (`data/f1620…`).
    """

    severity: Severity
    message: str
    block: Multihash | None = None
    sequence_number: int | None = None
    object: str | None = None


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """What a check found.

    Attributes:
        head: The head that was checked.
        blocks: Blocks that were read.
        objects: Slices and checkpoints that were hashed.
        findings: What was found, oldest block first.
    """

    head: Multihash | None
    blocks: int
    objects: int
    findings: tuple[IntegrityFinding, ...]

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong; warnings and what was not checked do not count."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)
