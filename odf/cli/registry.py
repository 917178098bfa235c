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
        return f"odf.cli.commands.{self.name}"


ENTRIES: Final = (
    Entry("init", "Create", "Make a workspace."),
    Entry("add", "Create", "Make datasets from manifests."),
    Entry("list", "Look", "List the datasets of the workspace."),
    Entry("log", "Look", "Show the metadata chain of a dataset."),
    Entry("tail", "Look", "Show the last rows of a dataset."),
    Entry("pull", "Update", "Bring datasets up to date, or fetch them from elsewhere."),
    Entry("verify", "Update", "Check that datasets are what their chains say."),
    Entry("delete", "Update", "Delete datasets with all of their data."),
    Entry("push", "Share", "Send datasets to a repository."),
    Entry("repo", "Share", "Manage the repositories to exchange datasets with."),
    Entry("key", "Share", "Manage the private keys of one's own datasets."),
    Entry("engine", PLUMBING, "Manage how the Spark engine starts."),
    Entry("help", "More", "Explain a command, or exit-codes, environment, plumbing."),
    Entry("conformance", PLUMBING, "Answer test cases of ODF implementations."),
    Entry("completions", PLUMBING, "Print the completion script of a shell."),
)
"""All commands, in the order of the list."""

BY_NAME: Final = {entry.name: entry for entry in ENTRIES}

ALIASES: Final = {"ls": "list"}
"""Other spellings that work but are not listed."""
