"""One dataset's trouble, of whatever kind, must not stop the work on the others."""

import traceback
from collections.abc import Callable
from typing import TypeVar

from odf.coordinator.context import Context
from odf.errors import OdfError, TransportError

Result = TypeVar("Result")


class InternalError(OdfError):
    """A defect of this program, met while working on one dataset."""

    kind = "internal"


def guarded(ctx: Context, name: str, work: Callable[[], Result]) -> Result | OdfError:
    """Do one dataset's work and return what comes of it, or why nothing did.

    Args:
        ctx: The run, whose folder gets the traceback of what nobody expected.
        name: The dataset.
        work: What to do.
    """
    try:
        return work()
    except OdfError as error:
        return error
    except OSError as error:
        return TransportError(
            f"{name}: {error.strerror or error}"
            + (f": {error.filename}" if error.filename else ""),
            hint="is the disk full, or a folder not accessible?",
        )
    except Exception as error:  # noqa: BLE001 - the one dataset fails, the others go on
        return InternalError(
            f"{name}: internal error: {type(error).__name__}: {error}",
            hint=f"this is a bug in odf; {_logged(ctx, name)}",
        )


def _logged(ctx: Context, name: str) -> str:
    """Keep the traceback of what is being handled, where that is possible."""
    try:
        path = ctx.run_dir / "error.log"
        with path.open("a") as log:
            log.write(f"{name}:\n{traceback.format_exc()}\n")
    except (OSError, OdfError) as error:
        return f"its traceback could not be kept: {error}"
    return f"the traceback is in {path}"
