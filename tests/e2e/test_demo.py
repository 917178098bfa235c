"""The demo, as `make demo` runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_demo_ends_with_its_summary(tmp_path: Path) -> None:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("ODF_", "XDG_"))
    }
    done = subprocess.run(
        [sys.executable, str(PROJECT / "examples" / "demo.py")],
        cwd=tmp_path,
        env={**kept, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=840,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    _, summary = done.stdout.split("=== Summary\n")
    # Counted by hand from the exports, once more: 23 in the first round, 20 and 16 after.
    assert "5 datasets, 3 rounds, 59 rows as counted by hand" in " ".join(summary.split())
    assert "verified by the publisher and by the reader; both have the same heads" in summary
    assert re.search(r"=== Round 3.*stations-kaap +2 -R", done.stdout, re.DOTALL)
    up_to_date = done.stdout.split("no engine is started")[1].split("===")[0]
    assert "5 up to date" in up_to_date
    # Once here, once there, each dataset with all of its steps replayed.
    assert len(re.findall(r"^\S+ +valid ", done.stdout, re.MULTILINE)) == 10
    assert (tmp_path / "demo-run" / "repository" / "stations-kaap" / "refs" / "head").is_file()
