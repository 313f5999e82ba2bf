"""From an upload to a table: decoding, dialect, types, roles, profile, samples and simulators."""

from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.positives import ANY_VALUE
from spu_core.tables.roles import Role
from spu_core.tables.table import Table

__all__ = [
    "ANY_VALUE",
    "ColumnType",
    "Finding",
    "Role",
    "Severity",
    "Table",
]
