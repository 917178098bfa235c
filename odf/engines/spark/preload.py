"""What Java would begin in the middle of a query, begun when the query becomes known.

`upper` and its kin go through a class of Spark that first works out the title form of every
character there is, whatever the rows: a second of one processor, once in the life of a Java. While
a query is analysed and planned another processor has nothing to do.
"""

import contextlib
import re
import threading
from typing import TYPE_CHECKING, Any, Final

from odf.metadata.model import TransformSql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CASE_TABLES: Final = "org.apache.spark.sql.catalyst.util.CollationAwareUTF8String"
_CHANGES_CASE: Final = re.compile(r"\b(?:upper|ucase|lower|lcase|initcap)\s*\(", re.IGNORECASE)


class Preloader:
    """Has a Java load what queries are going to need. Results do not depend on it."""

    def __init__(self) -> None:
        self._has_begun = threading.Event()

    def begin(self, spark: "SparkSession", query: TransformSql) -> bool:
        """Begin to load what a query needs, without waiting for it.

        Args:
            spark: A session in that Java.
            query: The query, with `queries` filled.

        Returns:
            Whether it began: it does once at most.
        """
        changes_case = any(_CHANGES_CASE.search(step.query) for step in query.queries or ())
        if not changes_case or self._has_begun.is_set():
            return False
        self._has_begun.set()
        threading.Thread(target=_load, args=(spark,), daemon=True, name="preload").start()
        return True


def _load(spark: "SparkSession") -> None:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # there is no public way to Java
    # Java may be ended meanwhile; whatever else is wrong comes to light in the query.
    with contextlib.suppress(Exception):
        jvm.java.lang.Class.forName(_CASE_TABLES)
