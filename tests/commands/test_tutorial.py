"""The ten commands of the tutorial, in the order of a newcomer and in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pandas as pd
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
