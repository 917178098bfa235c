"""Next steps after an error about bad rows, in the words of the command line."""

from typing import Final

from odf.data.read_options import UTF8

SET_ASIDE: Final = "--on-bad-rows quarantine sets bad rows aside and takes the others"

TYPES: Final = (
    "correct the file or the schema; a column with mixed values can be read as STRING and "
    "converted in the preprocess query"
)


def encoding_hint(encoding: str) -> str:
    """Say what to do about a file that is not in the encoding that it should be in."""
    if encoding == UTF8:
        return "name the file's `encoding` in the read step, for example latin-1 or utf-16"
    return f"the read step says `encoding: {encoding}`: check whether that is right"
