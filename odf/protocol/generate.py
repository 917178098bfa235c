"""Make the gRPC stubs anew from the `.proto` files: `python -m odf.protocol.generate [FOLDER]`.

The stubs are committed, so that installing needs no compiler; a test says that they are current.
Needs `grpcio-tools`, which is a dependency of development only.
"""

import sys
from pathlib import Path

PROTOS = ("engine", "host")
PACKAGE = Path(__file__).resolve().parent
SOURCES = PACKAGE.parent.parent
"""The folder that holds the package `odf`: stubs import each other from there."""


def generate(target: Path = SOURCES) -> tuple[Path, ...]:
    """Write the stubs below a folder, in the packages where they belong.

    Args:
        target: The folder that holds, or will hold, the package `odf`.

    Returns:
        The files that were written.

    Raises:
        RuntimeError: If the compiler refuses a `.proto` file; its words are on standard error.
    """
    from grpc_tools import protoc  # type: ignore[import-untyped]  # noqa: PLC0415  # developers'

    folder = target / PACKAGE.relative_to(SOURCES)
    folder.mkdir(parents=True, exist_ok=True)
    options = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpc_python")]
    sources = [f"{PACKAGE.relative_to(SOURCES).as_posix()}/{name}.proto" for name in PROTOS]
    if protoc.main(["protoc", f"-I{SOURCES}", *options, *sources]) != 0:
        raise RuntimeError(f"protoc refused one of {', '.join(sources)}")
    endings = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
    return tuple(folder / f"{name}{ending}" for name in PROTOS for ending in endings)


if __name__ == "__main__":
    for written in generate(*map(Path, sys.argv[1:])):
        print(written)  # noqa: T201  # a tool of developers
