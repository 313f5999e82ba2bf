"""`python .ci/check_release.py v0.3.0`: fails unless the tag, pyproject.toml, CITATION.cff and CHANGELOG.md agree."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps this tag from being released, a sentence each."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    heading = re.search(r"^## \[(\d[^\]]*)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    found = {
        "The tag": tag.removeprefix("v"),
        "CITATION.cff": cited[1].strip() if cited else None,
        "The newest release in CHANGELOG.md": heading[1] if heading else None,
    }
    return [
        f"{where} says {says}, but pyproject.toml says {version}." for where, says in found.items() if says != version
    ]


if __name__ == "__main__":
    sys.exit("\n".join(problems(sys.argv[1])) or None)
