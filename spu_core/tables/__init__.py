"""From an upload to a table: decoding, dialect, types, roles, profile, samples and simulators."""

from spu_core.tables.column_types import ColumnType
from spu_core.tables.convert import convert_table
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.folder import TableFolder, TablePart
from spu_core.tables.leakage import Leak, find_leaks
from spu_core.tables.open_folder import open_folder
from spu_core.tables.positives import ANY_VALUE
from spu_core.tables.profiles import ColumnProfile, Histogram, Level, TableProfile
from spu_core.tables.read import read_table
from spu_core.tables.reading import Dialect, Reading, ReadLimits, RejectedLine
from spu_core.tables.roles import Role
from spu_core.tables.table import Table

__all__ = [
    "ANY_VALUE",
    "ColumnProfile",
    "ColumnType",
    "Dialect",
    "Finding",
    "Histogram",
    "Leak",
    "Level",
    "ReadLimits",
    "Reading",
    "RejectedLine",
    "Role",
    "Severity",
    "Table",
    "TableFolder",
    "TablePart",
    "TableProfile",
    "convert_table",
    "find_leaks",
    "open_folder",
    "read_table",
]
