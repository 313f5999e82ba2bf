"""Reading tables from files: encoding, dialect, layout, repair and types. The package does not depend on others.

`file_reader.py` detects the format. Text goes through these steps, which `text_tables.py` combines:

- `sources.py`, `encoding.py`: bytes to UTF-8
- `record_splitter.py`, `dialect.py`: lines to cells; separator, quote and odd notations
- `layout.py`, `headers.py`: the start of the table, and the names of its columns
- `blocks.py`, `repair.py`: rows, and lines that would damage others
- `values.py`, `column_builders.py`, `typed_columns.py`: cells to typed columns

`reading_report.py` defines the options of the caller and the report of what was found.
"""

from spu_core.tables.reading.column_builders import Scratch
from spu_core.tables.reading.file_reader import FileContent, ReadOptions, read_file
from spu_core.tables.reading.reading_report import Dialect, Finding, Reading, ReadLimits, RejectedLine, Severity
from spu_core.tables.reading.typed_columns import Written
from spu_core.tables.reading.values import ColumnType

__all__ = [
    "ColumnType",
    "Dialect",
    "FileContent",
    "Finding",
    "ReadLimits",
    "ReadOptions",
    "Reading",
    "RejectedLine",
    "Scratch",
    "Severity",
    "Written",
    "read_file",
]
