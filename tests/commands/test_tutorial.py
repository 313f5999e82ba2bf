"""The ten commands of the tutorial, in the order of a newcomer and in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from spu_core import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"


def commands() -> list[str]:
    block = re.search(r"```sh\n(.*?)```", (DOCS / "tutorial.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert block is not None
    return block.group(1).strip().splitlines()


def test_the_ten_commands_lead_from_a_file_to_a_scored_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(commands()) == 10
    printed = {}
    for line in commands():
        words = shlex.split(line)
        assert words[0] == "spu"
        done = CliRunner().invoke(cli.app, words[1:])
        assert done.exit_code == 0, f"{line}\n{done.stderr}"
        printed[words[1]] = done.stdout

    assert "569 rows read" in printed["profile"]
    assert "ceiling" in printed["label"]
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert len(scored) == 569
    assert {"score", "flagged", "rank"} <= set(scored.columns)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<script") > 0
    assert json.loads((tmp_path / "study.json").read_text())["schema"] == 1


def shown() -> list[str]:
    """Calls of `spu` in the shell blocks of the README and all guides, without comments and variables before them."""
    calls = set()
    for path in [DOCS.parent / "README.md", *DOCS.glob("*.md")]:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL):
            for line in block.splitlines():
                call = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?(spu .*)", line)
                if call:
                    calls.add(shlex.join(shlex.split(call[1], comments=True)))
    return sorted(calls)


@pytest.mark.parametrize("call", shown())
def test_calls_that_the_guides_show_have_arguments_that_the_command_takes(call):
    command, words = typer.main.get_command(cli.app), shlex.split(call)[1:]
    while hasattr(command, "get_command"):  # a group of commands
        name = words.pop(0)
        found = command.get_command(typer.Context(command), name)
        assert found is not None, f"there is no command {name}"
        command = found.make_context(name, list(words)).command  # refuses what the command does not take


def test_the_guides_show_calls():
    assert len(shown()) > 25
