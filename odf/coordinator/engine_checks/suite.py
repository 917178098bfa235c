"""All checks, in the order in which they are shown."""

from typing import Final

from odf.coordinator.engine_checks.base import Check
from odf.coordinator.engine_checks.errors import CHECKS as ERRORS
from odf.coordinator.engine_checks.names import CHECKS as NAMES
from odf.coordinator.engine_checks.operations import CHECKS as OPERATIONS
from odf.coordinator.engine_checks.rows import CHECKS as ROWS
from odf.coordinator.engine_checks.types import CHECKS as TYPES
from odf.coordinator.engine_checks.validation import CHECKS as VALIDATION

CHECKS: Final[tuple[Check, ...]] = (*ROWS, *NAMES, *TYPES, *OPERATIONS, *ERRORS, *VALIDATION)
"""All checks, in the order in which they are shown."""
