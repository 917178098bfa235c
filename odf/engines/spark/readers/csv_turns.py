"""Keeps the tasks that read ranges of a CSV file at the pace of whoever takes their parts.

Parts are taken by one thread, which writes the slice. Tasks that run ahead of it would have all
processors to themselves at first and leave all but one idle in the end; and what they wrote would
lie in memory or on disk meanwhile. So a task begins when few parts before its own are not taken.

Tasks and taker may be in different processes and see each other's files only. To wait is a matter
of pace: nothing depends on it, and it ends after a while in which nothing happens.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.005
_PATIENCE_SECONDS: Final = 1.0
"""How long a task waits for the next part to be taken. Who is slower than that finds its parts
ready; and if the part it wants is to be read once more, tasks that wait must not be in its way."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The marks in the folder of the parts of one reading.

    Attributes:
        folder: Where the parts are.
        ahead: How many parts may be begun beyond those that were taken; 0 for any number.
    """

    folder: str
    ahead: int

    def wait(self, index: int) -> None:
        """Wait until it is a part's turn to be read.

        Args:
            index: How many parts are before it.
        """
        seen, since = -1, time.monotonic()
        while self.ahead and not (self.is_stopped or self._mark("unpaced").exists()):
            taken = self._taken()
            if index < taken + self.ahead:
                return
            if taken != seen:
                seen, since = taken, time.monotonic()
            elif time.monotonic() - since > _PATIENCE_SECONDS:
                return
            time.sleep(_LOOK_SECONDS)

    def take(self) -> None:
        """Say that one more part was taken."""
        with self._mark("taken").open("ab") as file:
            file.write(b".")

    def give_up(self) -> None:
        """Say that a part will never be there: whoever waits for it takes nothing meanwhile."""
        self._mark("unpaced").touch()

    def stop(self) -> None:
        """Say that nobody waits for parts."""
        self._mark("stopped").touch()

    @property
    def is_stopped(self) -> bool:
        """Whether nobody waits for parts."""
        return self._mark("stopped").exists()

    def clear(self) -> None:
        """Remove what `take` and `give_up` left, when all is read."""
        for name in ("taken", "unpaced"):
            self._mark(name).unlink(missing_ok=True)

    def _taken(self) -> int:
        try:
            return self._mark("taken").stat().st_size
        except FileNotFoundError:
            return 0

    def _mark(self, name: str) -> Path:
        return Path(self.folder) / name
