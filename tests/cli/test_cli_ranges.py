import pytest

from odf.cli.ranges import number_range
from odf.errors import UsageError


@pytest.mark.parametrize(
    ("text", "found"), [("0", (0, 0)), ("42", (42, 42)), ("40..49", (40, 49)), ("7..7", (7, 7))]
)
def test_a_range(text: str, found: tuple[int, int]) -> None:
    assert number_range(text, "--offset") == found


@pytest.mark.parametrize("text", ["", "x", "-1", "1..", "..2", "1...2", "1-2", "9" * 19, "1.5"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError, match="wanted a number such as 42"):
        number_range(text, "--offset")


def test_one_that_goes_backwards() -> None:
    with pytest.raises(UsageError, match="ends before it begins"):
        number_range("3..2", "--blocks")
