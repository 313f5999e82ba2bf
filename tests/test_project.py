"""The project itself: what the README promises, and what travels in the wheel."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import spu_core
from spu_core.cli import dashboard_folder

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
ALLOWED = {
    "pyproject.toml",
    "app.py",
    "pages",
    "spu_core",
    "sample_data",
    "tests",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "docs",
    "CITATION.cff",
}


def tracked_files() -> list[str]:
    result = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    if result.returncode:
        pytest.skip("not a git checkout")
    return result.stdout.splitlines()


def readme_examples() -> list[tuple[str, str]]:
    """Each Python block of the README with the text block that follows it, its output."""
    return re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, flags=re.DOTALL)


def test_the_top_level_holds_what_the_design_names():
    top = {path.split("/")[0] for path in tracked_files()}

    assert {name for name in top if not name.startswith(".")} <= ALLOWED


@pytest.mark.parametrize(("code", "output"), readme_examples())
def test_the_readmes_python_prints_what_the_readme_says(code, output):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})  # our own text, not a user's

    assert printed.getvalue().strip() == output.strip()


def test_the_readme_has_python_to_run():
    assert readme_examples()
    assert README.count("```python") == len(readme_examples())


def test_ci_runs_exactly_the_readmes_test_command():
    commands = re.findall(r"^python3 -m venv .*$", README, flags=re.MULTILINE)

    assert [command.endswith("pytest") for command in commands] == [False, True]
    assert "grep -E '^python3 -m venv .*pytest$' README.md" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_links_inside_the_project_lead_somewhere():
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["version"] == spu_core.__version__
    assert f"[{spu_core.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def requirements() -> dict[str, set[str]]:
    """Names of the declared libraries: those of an installation (with all its extras), and those to develop it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    tools = [entry for extra in ("dev", "test") for entry in extras.pop(extra)]
    installed = [*project["dependencies"], *(entry for extra in extras.values() for entry in extra)]
    names = {"installed": installed, "tools": tools}
    return {
        kind: {_distribution(re.split(r"[\[<>=!~; ]", entry)[0]) for entry in given} for kind, given in names.items()
    }


def _distribution(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_libraries(*places: str) -> dict[str, str]:
    """Top-level names of other projects that our files import, each with one file that does."""
    paths = [
        path for place in places for path in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py"))
    ]
    found: dict[str, str] = {}
    for path in paths:
        if path.is_relative_to(ROOT / "tests" / "benchmarks"):
            continue  # compares with libraries that nothing else needs
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found |= {name.split(".")[0]: str(path.relative_to(ROOT)) for name in names}
    own = {"spu_core", "pages", "tests", "app"}
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names and name not in own}


@pytest.mark.parametrize("places", [("spu_core", "pages", "app.py"), ("tests",)])
def test_every_imported_library_is_declared(places):
    declared = requirements()
    allowed = declared["installed"] | (declared["tools"] if places == ("tests",) else set())
    providers = packages_distributions()

    imported = imported_libraries(*places)

    assert {"numpy", "pandas"} <= set(imported)
    for name, path in imported.items():
        # A library that is not installed here, such as torch, is called as it is imported.
        given = {_distribution(provider) for provider in providers.get(name, [name])}
        assert given & allowed, f"{path} imports {name}, which pyproject.toml does not declare"


def test_the_architecture_says_why_for_each_library():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## Dependencies, and why")[1]
    words = {_distribution(word) for word in re.findall(r"[\w.-]+\w", text)}

    assert set().union(*requirements().values()) - {"spu-studio"} <= words


def test_the_dashboard_is_found_in_a_checkout():
    assert (dashboard_folder() / "app.py").is_file()
    assert (dashboard_folder() / ".streamlit" / "config.toml").is_file()


def test_the_command_answers_without_loading_the_dashboard():
    result = subprocess.run([sys.executable, "-m", "spu_core", "version"], capture_output=True, text=True, cwd=ROOT)

    assert result.stdout.strip() == spu_core.__version__


def test_the_server_listens_on_this_computer_only_and_asks_nothing():
    config = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))

    assert config["server"]["address"] == "127.0.0.1"
    assert config["server"]["showEmailPrompt"] is False
    assert config["browser"]["gatherUsageStats"] is False


def test_a_release_is_refused_where_tag_version_citation_and_changelog_differ(tmp_path):
    spec = importlib.util.spec_from_file_location("check_release", ROOT / ".ci" / "check_release.py")
    assert spec is not None
    assert spec.loader is not None
    check_release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_release)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.1.0] - 2026-01-01\n")

    assert check_release.problems("v1.2.0", tmp_path) == [
        "The newest release in CHANGELOG.md says 1.1.0, but pyproject.toml says 1.2.0."
    ]
    assert len(check_release.problems("v1.3.0", tmp_path)) == 2
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited[1] == spu_core.__version__
