"""Releases of our own engines, as `transform.version` pins them.

A release is a number of its own: it is raised only when some output could differ, not with every
version of the package. It fixes the Java major, Spark, Arrow and our own rules. The coordinator
has to know it without starting the engine, and the engine has to answer to it, so it stands here.
"""

from collections.abc import Mapping
from typing import Final

SPARK_RELEASE: Final = "odf-spark/1.0.0"
"""Java 25, Spark 4.3, pyarrow 26."""

COMPATIBLE_WITH_SPARK: Final = frozenset({SPARK_RELEASE})
"""Releases whose outputs the current one is known to reproduce."""

DATAFUSION_RELEASE: Final = "odf-datafusion/1.0.0"
"""DataFusion 55, pyarrow 26."""

RELEASES: Final[Mapping[str, str]] = {
    "spark": SPARK_RELEASE,
    "datafusion": DATAFUSION_RELEASE,
}
"""The current release of each of our engines, by the name that manifests use, in lower case."""

COMPATIBLE: Final[Mapping[str, frozenset[str]]] = {
    "spark": COMPATIBLE_WITH_SPARK,
    "datafusion": frozenset({DATAFUSION_RELEASE}),
}
"""Releases whose outputs the current one is known to reproduce, by the name of the engine."""
