"""From an upload to a table: decoding, dialect, types, roles, profile, samples and simulators."""

from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.positives import ANY_VALUE
from spu_core.tables.read import read_table
from spu_core.tables.reading import Dialect, Reading, ReadLimits, RejectedLine
from spu_core.tables.roles import Role
from spu_core.tables.table import Table

__all__ = [
    "ANY_VALUE",
    "ColumnType",
    "Dialect",
    "Finding",
    "ReadLimits",
    "Reading",
    "RejectedLine",
    "Role",
    "Severity",
    "Table",
    "read_table",
]
