"""The pages of the site that are written elsewhere in the repository: the start page and the changelog."""

import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
# Links of these files start at the root of the repository, those of the site in docs/.
MOVED = {"](docs/": "](", "](CHANGELOG.md": "](changelog.md", "[licence: MIT](LICENSE)": "licence: MIT"}


def on_files(files, config):
    """Add the files that stand at the root of the repository."""
    for page, source in SOURCES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        for old, new in MOVED.items():
            text = text.replace(old, new)
        text = re.sub(r"\$\$(.+?)\$\$", lambda found: convert(found[1], display="block"), text, flags=re.DOTALL)
        text = re.sub(r"\$(.+?)\$", lambda found: convert(found[1]), text)
        files.append(File.generated(config, page, content=text))
    return files
