"""Engines of others by configuration: which image a name stands for, and how it is pinned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odf.errors import EngineUnavailableError
from odf.runtimes.base import ContainerProgram
from odf.runtimes.container_cli import ContainerCli, ContainerToolName, ImageFacts
from odf.runtimes.select import RuntimeChoice

_BY_DIGEST = "@sha256:"


@dataclass(frozen=True, slots=True)
class ChosenImage:
    """The image that an engine of others is run from.

    Attributes:
        facts: What is known of it.
        pin: How a transform says that it is this one: `image@sha256:…`.
    """

    facts: ImageFacts
    pin: str


def chosen_image(
    program: ContainerProgram, runtime: RuntimeChoice, version: str | None
) -> ChosenImage:
    """Find the image of an engine on this machine.

    Args:
        program: As it is configured.
        runtime: Where to look; `auto` takes the first tool that has it.
        version: What the transform is pinned to; None takes what is configured.

    Raises:
        EngineUnavailableError: If no tool has it, or not in the version that is wanted.
    """
    hint = f"get it: docker pull {program.image} (or podman pull)"
    reasons: list[str] = []
    for cli in _tools(runtime):
        if (reason := cli.why_not()) is not None:
            reasons.append(f"{cli.name}: {reason}")
            continue
        facts = cli.image(program.image)
        if facts is None:
            reasons.append(f"{cli.name}: there is no image {program.image}")
            continue
        pins = (*facts.digests, f"{_repository(program.image)}@{facts.image_id}")
        if version is None or version in pins:
            return ChosenImage(facts, version or pins[0])
        other = cli.image(version) if _BY_DIGEST in version else None
        if other is not None:
            return ChosenImage(other, version)
        hint = f"get it: docker pull {version} (or podman pull)"
        reasons.append(f"{cli.name}: {program.image} is {pins[0]}, wanted {version}")
    raise EngineUnavailableError(
        f"the engine's image cannot be run: {'; '.join(reasons) or 'it needs docker or podman'}",
        hint=hint if reasons else "set engine.runtime to docker, podman or auto",
    )


def no_such_engine(who: str, engine: str, known: Sequence[str]) -> EngineUnavailableError:
    """Say that an engine is not here, and how one is made known.

    Args:
        who: Who asks for it.
        engine: Its name in the manifest.
        known: The engines that are.
    """
    name = engine.lower()
    return EngineUnavailableError(
        f"{who} asks for engine {engine!r}; this workspace has: {', '.join(known)}",
        hint="rewrite the query for Spark (engine: spark), or name an image for it in the "
        f"configuration: engine: {{images: {{{name}: {{image: …, port: …}}}}}} "
        "(docs/engines.md, Engines of others)",
    )


def _tools(runtime: RuntimeChoice) -> Iterator[ContainerCli]:
    names: tuple[ContainerToolName, ...] = ("docker", "podman")
    for name in names:
        if runtime in ("auto", name):
            yield ContainerCli(name)


def _repository(image: str) -> str:
    """Cut the tag or digest off an image's name; a colon before a slash is that of a port."""
    name = image.partition("@")[0]
    head, _, tag = name.rpartition(":")
    return name if not head or "/" in tag else head
