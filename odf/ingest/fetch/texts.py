"""The texts of fetch steps that may be templates (ingest.md §3)."""

from odf.metadata.model import (
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
)


def texts_of(step: FetchStep) -> tuple[tuple[str, str], ...]:
    """List the texts of a step that may be templates, each with what it is.

    A variable of a container that has no value is passed through, which is what a template that
    names it would do.
    """
    match step:
        case FetchStepUrl():
            headers = ((f"header {header.name}", header.value) for header in step.headers or ())
            return (("url", step.url), *headers)
        case FetchStepMqtt():
            pairs = (("username", step.username), ("password", step.password))
            return tuple((name, text) for name, text in pairs if text is not None)
        case FetchStepEthereumLogs():
            return (("nodeUrl", step.node_url),) if step.node_url is not None else ()
        case FetchStepContainer():
            variables = (
                (
                    f"env {one.name}",
                    f"${{{{ env.{one.name} }}}}" if one.value is None else one.value,
                )
                for one in step.env or ()
            )
            arguments = ((f"args[{n}]", text) for n, text in enumerate(step.args or ()))
            return (("image", step.image), *arguments, *variables)
        case FetchStepFilesGlob():
            return ()
