"""What a command needs to write a file is loaded without models, charts and their libraries."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("sklearn", "lightgbm", "xgboost", "plotly", "spu_core.models", "spu_core.training", "spu_core.charts")


def test_files_are_written_without_models_and_scoring_loads_no_charts():
    show = f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    writing = "import spu_core.tables.spreadsheet; from spu_core.export.archive import write_file"
    scoring = "from spu_core.export import Bundle, load_bundle"
    code = f"import sys; {writing}; {show}; {scoring}; {show}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()

    assert said[0] == ""
    assert "spu_core.models" in said[1]
    assert "plotly" not in said[1]
