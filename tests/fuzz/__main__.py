"""Coverage-guided fuzzing with atheris: `make fuzz`, or `python -m tests.fuzz [TARGET...]`.

`FUZZ_RUNS` is the number of inputs for each target. Each runs in a process of its own, with bounds
on the time and the memory that one input may take. What fails is kept in `fuzz-failures/`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import TARGETS

RUNS = int(os.environ.get("FUZZ_RUNS", "200000"))
SECONDS_OF_ONE_INPUT = 10
MEGABYTES = 2048
MAX_INPUT_SIZE = 4096
FAILURES = Path("fuzz-failures")


def main(names: list[str]) -> int:
    """Fuzz targets one after the other and print how many inputs each was given."""
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        sys.stderr.write(f"no such target: {unknown[0]}; there are {', '.join(TARGETS)}\n")
        return 2
    FAILURES.mkdir(exist_ok=True)
    total, failed = 0, []
    for name in names or list(TARGETS):
        runs, code = _in_a_process(name)
        total += runs
        failed += [name] if code else []
        print(f"fuzz {name}: {runs} inputs, {'FAILED' if code else 'no failure'}", flush=True)  # noqa: T201
    outcome = f"failed: {', '.join(failed)}" if failed else "no failure"
    print(f"fuzz: {total} inputs over {len(names or TARGETS)} targets, {outcome}")  # noqa: T201
    if not any(FAILURES.iterdir()):
        FAILURES.rmdir()
    return 1 if failed else 0


def _in_a_process(name: str) -> tuple[int, int]:
    """Fuzz one target; return how many inputs it had, and the exit code."""
    with tempfile.TemporaryDirectory(prefix="odf-fuzz-") as folder:
        corpus = Path(folder)
        for number, seed in enumerate(TARGETS[name].seeds()):
            (corpus / f"seed-{number:03d}").write_bytes(seed)
        words = corpus.with_suffix(".words")
        words.write_text("".join(f'"{_quoted(word)}"\n' for word in TARGETS[name].words))
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.fuzz.one",
                name,
                f"-runs={RUNS}",
                f"-max_len={MAX_INPUT_SIZE}",
                f"-timeout={SECONDS_OF_ONE_INPUT}",
                f"-rss_limit_mb={MEGABYTES}",
                f"-dict={words}",
                f"-artifact_prefix={FAILURES}/{name}-",
                "-seed=1",
                str(corpus),
            ],
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        words.unlink()
    done = re.search(r"^Done (\d+) runs", ran.stderr, re.MULTILINE)
    seen = re.findall(r"^#(\d+)", ran.stderr, re.MULTILINE)
    if ran.returncode or done is None:
        sys.stderr.write(ran.stderr)
        return int(seen[-1]) if seen else 0, ran.returncode or 1
    return int(done[1]), 0


def _quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
