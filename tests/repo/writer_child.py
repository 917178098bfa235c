"""A process that commits descriptions to a dataset, trying again when others were faster.

Run as `writer_child.py FOLDER NAME COUNT`. It says `ready`, waits for a line, and prints the text
of each commit that was acknowledged.
"""

import sys
from pathlib import Path

from odf.errors import ConflictError, LockedError
from odf.metadata.model import SetInfo, Timestamp
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores

TIME = Timestamp.parse("2026-05-01T00:00:00Z")


def main() -> None:
    """Commit COUNT times."""
    folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    dataset = Dataset.open(DatasetStores.local(folder))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(count):
        text = f"{name}-{number}"
        while True:
            try:
                dataset.commit([SetInfo(text)], expected_head=dataset.head(), system_time=TIME)
            except (ConflictError, LockedError):
                continue
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            break


if __name__ == "__main__":
    main()
