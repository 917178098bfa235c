"""The commands there are, known without importing any of them."""

from dataclasses import dataclass
from typing import Final

PLUMBING: Final = "Plumbing"
"""The section of what machines call; `odf` alone does not list it, `odf help plumbing` does."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command.

    Attributes:
        name: What a person types.
        section: The heading it is listed under.
        purpose: One line, for the list; the first line of the command's own help says the same.
    """

    name: str
    section: str
    purpose: str

    @property
    def module(self) -> str:
        """The module that has the command."""
        return f"odf.cli.commands.{self.name.replace('-', '_')}"


ENTRIES: Final = (
    Entry("init", "Create", "Make a workspace."),
    Entry("add", "Create", "Make datasets from manifests."),
    Entry("list", "Look", "List the datasets of the workspace."),
    Entry("show", "Look", "Show what a dataset is and holds, and how far it is."),
    Entry("log", "Look", "Show the metadata chain of a dataset."),
    Entry("tail", "Look", "Show the last rows of a dataset."),
    Entry("pull", "Update", "Bring datasets up to date, or fetch them from elsewhere."),
    Entry("ingest", "Update", "Push files or standard input into a root dataset."),
    Entry("verify", "Update", "Check that datasets are what their chains say."),
    Entry("delete", "Update", "Delete datasets with all of their data."),
    Entry("push", "Share", "Send datasets to a repository."),
    Entry("repo", "Share", "Manage the repositories to exchange datasets with."),
    Entry("key", "Share", "Manage the private keys of one's own datasets."),
    Entry("drop-data", PLUMBING, "Free the space of data that can be derived again."),
    Entry("provenance", PLUMBING, "Show where rows of a derivative dataset come from."),
    Entry("engine", PLUMBING, "Manage engines: what they run in, and how they start."),
    Entry("help", "More", "Explain a command, or exit-codes, environment, plumbing."),
    Entry("conformance", PLUMBING, "Answer test cases of ODF implementations."),
    Entry("completions", PLUMBING, "Print the completion script of a shell."),
)
"""All commands, in the order of the list."""

BY_NAME: Final = {entry.name: entry for entry in ENTRIES}

ALIASES: Final = {"ls": "list"}
"""Other spellings that work but are not listed."""
