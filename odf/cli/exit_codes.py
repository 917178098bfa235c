"""The exit codes: one table for help texts, the reference and the tests.

A code once given never changes its meaning. An unknown code means failure.
"""

from typing import Final

EXIT_CODES: Final[dict[int, str]] = {
    0: "everything worked; being up to date already is success",
    1: "failure: bad input, refused query, engine or transfer error",
    2: "usage: unknown option, missing or contradicting arguments",
    3: "some of several datasets failed; the others are done",
    4: "not found: dataset, repository or file",
    5: "conflict: name taken, head moved, histories diverged",
    6: "not allowed: credentials or consent missing or refused",
    7: "verification failed: bytes or results do not match (wins over 3)",
    8: "locked: another process is writing to the dataset",
    9: "no engine could be started",
    10: "no workspace here or above",
    130: "interrupted (Ctrl-C)",
    141: "the reader of standard output went away",
    143: "terminated (SIGTERM)",
}
