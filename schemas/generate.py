#!/usr/bin/env python
"""Write the generated schema files into this folder."""

from pathlib import Path

from odf.metadata.schemas import render_schemas
from odf.protocol.messages import (
    RawQueryRequest,
    RawQueryResponseRoot,
    TransformRequest,
    TransformResponseRoot,
)

ENGINE_MESSAGES = (
    RawQueryRequest,
    RawQueryResponseRoot,
    TransformRequest,
    TransformResponseRoot,
)
"""The roots of what engines are told, beside the roots of the metadata."""


def main() -> None:
    """Write every schema file."""
    folder = Path(__file__).resolve().parent
    for name, text in render_schemas(ENGINE_MESSAGES).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
