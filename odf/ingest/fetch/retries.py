"""Faults of servers that pass, and the wait before the next attempt."""

from typing import Final

from odf import limits
from odf.errors import TransportError

from .base import FetchContext
from .event_time import seconds_until
from .transport import PassingFaultError, Reply

PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes of a server that may answer the same request a while later."""

_UNREACHED: Final = "check the URL, and whether this machine reaches the server; then pull again"


def passing(reply: Reply, message: str, ctx: FetchContext) -> PassingFaultError:
    """Make the fault of a reply with one of these codes, with the wait that it asks for."""
    fault = PassingFaultError(message, details={"status": reply.status})
    asked = reply.headers.get("retry-after")
    fault.wait = seconds_until(asked, ctx.clock.now()) if asked else None
    return fault


def wait_out(fault: PassingFaultError, attempt: int, ctx: FetchContext) -> None:
    """Wait before the next attempt.

    Args:
        fault: What went wrong.
        attempt: How many attempts there were, including the one that failed.
        ctx: Waits, and is told.

    Raises:
        TransportError: It was tried often enough, or the server wants a longer wait than we have.
    """
    if attempt >= limits.MAX_FETCH_ATTEMPTS:
        raise TransportError(
            f"{fault.message} (after {attempt} attempts)",
            hint=fault.hint or _UNREACHED,
            details=fault.details,
        ) from None
    wait = fault.wait if fault.wait is not None else float(2 ** (attempt - 1))
    if wait > limits.MAX_RETRY_WAIT:
        raise TransportError(
            f"{fault.message}; the server wants us to wait {wait:.0f} s",
            hint="pull again then",
            details=fault.details,
        ) from None
    ctx.report(f"{fault.message}; trying again in {wait:.0f} s")
    if wait:
        ctx.sleep(wait)
