"""What a command needs to write a file is loaded without models, charts and their libraries."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("sklearn", "lightgbm", "xgboost", "plotly", "spu_core.models", "spu_core.training", "spu_core.charts")


def loaded_by(statement: str) -> list[str]:
    code = f"import sys; {statement}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_csv_and_files_are_written_without_models():
    assert loaded_by("from spu_core.export import to_csv; from spu_core.export.archive import write_file") == []


def test_scoring_loads_no_charts():
    assert "plotly" not in loaded_by("from spu_core.export import Bundle, load_bundle")
