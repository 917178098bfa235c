"""Every error that `odf` raises on purpose.

The tree (exit codes in brackets; a code once given never changes its meaning)::

    OdfError [1]                  anything that went wrong and is understood
    ├── UsageError [2]            the command line itself is wrong
    ├── PartialFailureError [3]   some of several datasets failed
    ├── NotFoundError [4]         a dataset, repository, block or file that is not there
    ├── ConflictError [5]         heads moved, histories diverged, names collide
    ├── AuthError [6]             not allowed
    ├── IntegrityError [7]        bytes that do not hash to their name, results not reproduced
    ├── LockedError [8]           another process holds the dataset
    ├── EngineUnavailableError [9]  no engine could be started
    ├── NotAWorkspaceError [10]   no workspace here
    ├── BadInputError [1]         source data or a file of the user that cannot be taken
    │   └── ManifestError [1]     a manifest that cannot be read
    ├── InvalidQueryError [1]     SQL that is not accepted
    ├── RuleViolationError [1]    an event that the chain refuses
    ├── EngineError [1]           an engine that failed or died
    └── TransportError [1]        a network or file transfer that failed

Messages say what, where, wanted and got; `hint` is the next step for a person. Errors that
belong to one module only live beside that module and derive from one of these.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar


class OdfError(Exception):
    """Base of all expected errors.

    Args:
        message: What happened, where, what was wanted and what was found. One line.
        hint: What to do next, if anything sensible can be said.
        details: Further facts for machines, shown in JSON output.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "failure"

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, object] = dict(details or {})


class UsageError(OdfError):
    """The command line is wrong: unknown option, contradicting flags, missing argument."""

    exit_code = 2
    kind = "usage"


class PartialFailureError(OdfError):
    """Some of several datasets failed; the others are done."""

    exit_code = 3
    kind = "partial_failure"


class NotFoundError(OdfError):
    """Something that was asked for by name does not exist."""

    exit_code = 4
    kind = "not_found"


class ConflictError(OdfError):
    """Two truths: a head that moved, histories that diverged, a name that is taken."""

    exit_code = 5
    kind = "conflict"


class AuthError(OdfError):
    """The other side wants credentials, or does not accept the given ones."""

    exit_code = 6
    kind = "auth"


class IntegrityError(OdfError):
    """Bytes do not match their hash, a chain breaks its rules, data cannot be reproduced."""

    exit_code = 7
    kind = "integrity"


class LockedError(OdfError):
    """Another process is writing to the dataset."""

    exit_code = 8
    kind = "locked"


class EngineUnavailableError(OdfError):
    """No engine could be started: not installed, no sandbox, or it did not come up."""

    exit_code = 9
    kind = "engine_unavailable"


class NotAWorkspaceError(OdfError):
    """No workspace at or above the current folder."""

    exit_code = 10
    kind = "not_a_workspace"


class BadInputError(OdfError):
    """Data or a file that the user gave cannot be taken as it is.

    Args:
        message: See `OdfError`.
        reason: A short machine name of the reason, for example `bad_rows` or `null_key`.
        problems: One line for each place that is wrong, the first ones only.
        hint: See `OdfError`.
        details: See `OdfError`.
    """

    kind = "bad_input"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "bad_input",
        problems: Sequence[str] = (),
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.reason = reason
        self.problems = tuple(problems)
        self.details.setdefault("reason", reason)
        if self.problems:
            self.details.setdefault("problems", list(self.problems))


class ManifestError(BadInputError):
    """A manifest cannot be read; `problems` has one `file:line:column: path: what` a line."""

    kind = "manifest"


class InvalidQueryError(OdfError):
    """SQL that does not parse, does not resolve, or asks for what is not allowed."""

    kind = "invalid_query"


class RuleViolationError(OdfError):
    """An event that may not follow in this chain (see `facts`: chain rules).

    Args:
        rule: The short name of the rule.
        message: See `OdfError`.
        hint: See `OdfError`.
        details: See `OdfError`.
    """

    kind = "rule"

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.rule = rule
        self.details.setdefault("rule", rule)


class EngineError(OdfError):
    """An engine failed, died, or handed back something that breaks its contract."""

    kind = "engine"


class TransportError(OdfError):
    """A transfer failed: network, server, or a file that could not be read."""

    kind = "transport"


def in_context(error: OdfError, where: str) -> OdfError:
    """Return an error like another one, of the same kind, that also says where it happened.

    Args:
        error: The error.
        where: A file, a dataset: what a person has to look at.
    """
    copy = error.__class__.__new__(error.__class__)
    copy.__dict__.update(error.__dict__)
    copy.message = f"{where}: {error.message}"
    copy.args = (copy.message,)
    return copy
