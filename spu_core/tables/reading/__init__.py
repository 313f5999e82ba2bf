"""Reading tables from files: encoding, dialect, layout, repair and types. The package stands alone.

`file_reader.py` chooses by content. Text goes through these steps, which `text_tables.py` puts together:

- `sources.py`, `encoding.py`: bytes to UTF-8
- `record_splitter.py`, `dialect.py`: lines to cells; separator, quote and odd notations
- `layout.py`, `headers.py`: where the table starts, and what its columns are called
- `blocks.py`, `repair.py`: rows, and lines that would damage others
- `values.py`, `column_builders.py`, `typed_columns.py`: cells to typed columns

`reading_report.py` holds what the caller may ask for and what was found.
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
