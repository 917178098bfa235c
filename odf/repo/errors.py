"""What can be wrong with a chain."""

from odf.errors import ConflictError, IntegrityError, OdfError


class InvalidIntervalError(ConflictError):
    """A block that was expected below another one is not there: a history was rewritten."""

    kind = "invalid_interval"


class CorruptChainError(IntegrityError):
    """A chain with a block that is missing, damaged, or breaks a rule."""

    kind = "corrupt_chain"


class OpaqueChainError(OdfError):
    """A chain with an event that this release does not understand; it cannot be written to."""

    kind = "opaque_chain"


class DivergedError(ConflictError):
    """Two copies of a dataset with different histories."""

    kind = "diverged"
