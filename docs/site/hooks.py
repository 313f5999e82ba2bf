"""The pages of the site that are written elsewhere in the repository, and a check that no page loads from elsewhere."""

import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
# Links of these files start at the root of the repository, those of the site in docs/.
MOVED = {"](docs/": "](", "](CHANGELOG.md": "](changelog.md", "[licence: MIT](LICENSE)": "licence: MIT"}

DIAGRAM_SCRIPT = re.compile(r'<script type="module">(?:(?!</script>).)*pre\.mermaid.*?</script>', re.DOTALL)
# A script, style, picture or frame of another origin; a link that a reader follows is none.
FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|\bimport\s*\(?\s*["'](?:https?:)?//|url\(["']?(?:https?:)?//|class="mermaid\b"""
)


def on_files(files, config):
    """Add the files that stand at the root of the repository."""
    for page, source in SOURCES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        for old, new in MOVED.items():
            text = text.replace(old, new)
        text = re.sub(r"\$\$(.+?)\$\$", _display, text, flags=re.DOTALL)
        # Markdown takes a line that begins with <math> for a paragraph of its own, but not one that begins with <span>.
        text = re.sub(r"\$(.+?)\$", lambda found: f"<span>{convert(found[1])}</span>", text)
        files.append(File.generated(config, page, content=text))
    return files


def _display(formula):
    """A formula in a line of its own, which scrolls where the screen is too narrow."""
    return f'<div style="overflow-x: auto">{convert(formula[1], display="block")}</div>'


def on_page_markdown(markdown, page, config, files):
    """Indent code in numbered lists by four columns: GitHub takes three, Python-Markdown would begin another list."""
    return re.sub(
        r"^   ```.*?^   ```$", lambda found: re.sub("^", " ", found[0], flags=re.M), markdown, flags=re.M | re.S
    )


def on_post_page(output, page, config):
    """Remove the script for diagrams from notebooks, which have none, and refuse whatever loads from another origin."""
    output = DIAGRAM_SCRIPT.sub("", output)
    if found := FOREIGN.search(output):
        raise PluginError(f"{page.file.src_uri} loads from another origin: {found[0]}")
    return output
