"""From an upload to a table: decoding, dialect, types, roles, profile, samples and simulators."""

from spu_core.tables.folder import TableFolder, TablePart
from spu_core.tables.leakage import Leak, find_leaks
from spu_core.tables.open_folder import open_folder
from spu_core.tables.profiles import ColumnProfile, Histogram, Level, TableProfile
from spu_core.tables.read import convert_table, read_table
from spu_core.tables.reading.report import Dialect, Finding, Reading, ReadLimits, RejectedLine, Severity
from spu_core.tables.reading.values import ColumnType
from spu_core.tables.roles import ANY_VALUE, Role
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
