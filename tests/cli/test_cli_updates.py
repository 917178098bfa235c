"""What `odf pull` and `odf ingest` say in the last column."""

from pathlib import Path

import pytest

from odf.cli.updates import details
from odf.coordinator.results import IngestedFile, PulledDataset, PullStatus
from odf.errors import BadInputError
from odf.repo.update import SetAside

ASIDE = (SetAside("a.csv", 2, Path("a")), SetAside("b.csv", 1, Path("b")))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            IngestedFile("a", PullStatus.UPDATED, records={"+A": 1234}, blocks=2),
            "1,234 +A, 2 blocks",
        ),
        (IngestedFile("a", PullStatus.UP_TO_DATE, reason="nothing new"), "nothing new"),
        (
            IngestedFile("a", PullStatus.UP_TO_DATE, reason="nothing else", set_aside=ASIDE),
            "3 rows set aside, nothing else",
        ),
        (IngestedFile("a", PullStatus.FAILED, error=BadInputError("bad"), blocks=1), "bad"),
    ],
)
def test_a_file(file: IngestedFile, said: str) -> None:
    assert details(file) == said


def test_a_dataset_tells_how_long_it_took() -> None:
    pulled = PulledDataset("a", None, "root", PullStatus.UPDATED, blocks=1, seconds=2.5)
    assert details(pulled, seconds=pulled.seconds) == "1 block, 2.5 s"
