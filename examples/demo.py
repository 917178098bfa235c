"""The main job, from nothing to a verified copy, with the commands that a person would type.

Two root datasets (a registry that is republished as a whole, a log with overlapping exports) and
three derivatives take in three rounds of exports; everything is verified, pushed to a repository,
pulled into a second workspace and verified there. Run it with `make demo`; the folder that it
leaves (`demo-run`) is yours to look around in.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
RUN = Path.cwd() / "demo-run"
ODF = Path(sys.executable).with_name("odf")
DATASETS = ["stations", "prices", "stations-kaap", "price-posts", "price-days"]
MANIFESTS = [f"{name}.yaml" for name in DATASETS]
ROUNDS = [
    ("stations-1.csv", "prices-2026-03-01.csv"),
    ("stations-2.csv", "prices-2026-03-03.csv"),
    ("stations-3.csv", "prices-2026-03-05.csv"),
]
UNSANDBOXED = "--allow-unsandboxed"
# Counted by hand from the exports: rows by operation that each round must add.
EXPECTED = [
    {
        "stations": {"+A": 5},
        "prices": {"+A": 5},
        "stations-kaap": {"+A": 2},
        "price-posts": {"+A": 9},
        "price-days": {"+A": 2},
    },
    {
        "stations": {"+A": 1, "-R": 1, "-C": 2, "+C": 2},
        "prices": {"+A": 3},
        "stations-kaap": {"+A": 2, "-C": 1, "+C": 1},
        "price-posts": {"+A": 5},
        "price-days": {"+A": 2},
    },
    {
        "stations": {"+A": 1, "-R": 1, "-C": 2, "+C": 2},
        "prices": {"+A": 2},
        "stations-kaap": {"-R": 2},
        "price-posts": {"+A": 4},
        "price-days": {"+A": 2},
    },
]


class Stage:
    """A folder in which commands are run, and the checks of what they printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)

    def odf(self, *arguments: str, show: bool = True) -> str:
        """Run `odf` with these arguments, show command and output, and return the output.

        Without a working sandbox `odf` refuses to run a query that came from elsewhere. Here the
        reader is the publisher, so the risk can be taken, and is taken visibly.
        """
        if show:
            print(f"\n$ odf {shlex.join(arguments)}", flush=True)
        environment = dict(
            os.environ, XDG_DATA_HOME=str(RUN / "home"), XDG_CACHE_HOME=str(RUN / "cache")
        )
        done = subprocess.run(
            [str(ODF), *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,  # progress would only scroll by here
            text=True,
            check=False,
        )
        if show:
            print(done.stdout, end="", flush=True)
        if done.returncode != 0 and UNSANDBOXED in done.stderr and UNSANDBOXED not in arguments:
            print(done.stderr, end="", flush=True)
            return self.odf(*arguments, UNSANDBOXED, show=show)
        if done.returncode != 0:
            print(done.stderr, end="", file=sys.stderr)
            sys.exit(f"demo: odf {shlex.join(arguments)} ended with exit code {done.returncode}")
        return done.stdout


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text}", flush=True)


def main() -> None:
    """Run the whole job."""
    started = time.monotonic()
    if RUN.exists():
        shutil.rmtree(RUN)
    home = Stage(RUN / "publisher")
    source = home.folder / "source"
    source.mkdir()

    say("A workspace, and five datasets from their manifests")
    home.odf("init")
    for manifest in MANIFESTS:
        shutil.copy(EXAMPLES / manifest, home.folder)
    home.odf("add", *MANIFESTS)

    for number, (stations, prices) in enumerate(ROUNDS, start=1):
        say(f"Round {number}: the owner publishes new exports")
        print(f"\n$ cp exports/{stations} source/stations.csv; cp exports/{prices} source/")
        shutil.copy(EXAMPLES / "exports" / stations, source / "stations.csv")
        shutil.copy(EXAMPLES / "exports" / prices, source)
        report = home.odf("pull", "--all", "-o", "json", show=False)
        print("\n$ odf pull --all")
        check_round(number, report)

    say("Nothing new: no engine is started")
    home.odf("pull", "--all")

    say("What is here now")
    home.odf("list")
    home.odf("tail", "stations-kaap")
    home.odf("show", "price-days")
    home.odf("tail", "price-days")
    home.odf("log", "stations-kaap", "--limit", "4")

    say("Verify: every hash, every rule, every derivation computed again")
    home.odf("verify", "--all")

    say("Push to a repository (a plain folder; any web server could serve it)")
    repository = (RUN / "repository").as_uri()
    home.odf("repo", "add", "shelf", repository)
    home.odf("push", *DATASETS, "--to", "shelf")

    say("Somebody else: pull and verify, trusting nobody")
    reader = Stage(RUN / "reader")
    reader.odf("init")
    reader.odf("repo", "add", "shelf", repository)
    for dataset in DATASETS:
        reader.odf("pull", f"shelf/{dataset}")
    reader.odf("verify", "-r", *DATASETS)

    summarize(home, reader, time.monotonic() - started)


def check_round(number: int, report: str) -> None:
    """Compare what a pull added with the numbers counted by hand."""
    pulled = {dataset["name"]: dataset["records"] for dataset in json.loads(report)["datasets"]}
    for name, expected in EXPECTED[number - 1].items():
        records = ", ".join(f"{count} {operation}" for operation, count in expected.items())
        if pulled.get(name) != expected:
            sys.exit(f"demo: round {number}: {name} got {pulled.get(name)}, wanted {expected}")
        print(f"  {name:<14} {records}")


def summarize(home: Stage, reader: Stage, seconds: float) -> None:
    """Show that both workspaces hold the same heads."""
    heads = []
    for stage in (home, reader):
        listed = json.loads(stage.odf("list", "-o", "json", show=False))["datasets"]
        heads.append({dataset["name"]: dataset["head"] for dataset in listed})
    if heads[0] != heads[1]:
        sys.exit(f"demo: the heads differ: {heads}")
    say("Summary")
    rows = sum(sum(counts.values()) for step in EXPECTED for counts in step.values())
    print(
        f"  {len(DATASETS)} datasets, {len(ROUNDS)} rounds, {rows} rows as counted by hand;\n"
        f"  verified by the publisher and by the reader; both have the same heads.\n"
        f"  {seconds:.0f} s. Look around: cd {RUN.name}/publisher && {ODF.name} list"
    )


if __name__ == "__main__":
    main()
