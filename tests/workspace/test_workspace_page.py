"""The code of docs/workspace.md runs, in the order of the page."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_examples_of_the_page_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "workspace.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 3

    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "rule set 'ad rules' version 2" in done.stdout
