"""What a child process said and how it ended, made safe to show."""

import contextlib
import signal
import unicodedata

from odf.limits import MAX_ENGINE_TEXT

_KEPT = "\n\t"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def printable(text: str) -> str:
    """Replace what could steer a terminal or hide other text, and cut at `MAX_ENGINE_TEXT`.

    Args:
        text: Anything that came from an engine: messages, log lines.
    """
    cut = text[:MAX_ENGINE_TEXT]
    shown = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(character) in _HIDDEN and character not in _KEPT
        else character
        for character in cut
    )
    return shown + " …" if len(text) > len(cut) else shown


def last_lines(tail: bytes, most: int) -> tuple[str, ...]:
    """Return the last lines of a log that are not blank, safe to print.

    Args:
        tail: The end of the log; its first line may be cut.
        most: How many lines at most.
    """
    lines = (printable(line).strip() for line in tail.decode("utf-8", "replace").splitlines())
    return tuple(line for line in lines if line)[-most:]


def exit_status(code: int) -> str:
    """Say in words how a process ended.

    Args:
        code: As `Popen.returncode` has it: negative for a signal.
    """
    # Shells and sandboxes report the signal of their child as 128 + number.
    number = -code if code < 0 else code - 128
    if number > 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(number).name}"
    return f"exit status {code}"
