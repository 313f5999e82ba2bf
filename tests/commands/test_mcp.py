"""`spu mcp`, asked by the client of the official SDK: once over standard input and output, else in this process."""

from __future__ import annotations

import asyncio
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spu_core.commands.mcp_command import make_server
from spu_core.tables.samples import sample_files

pytest.importorskip("mcp")

TABLE, RULES = "breast_cancer.csv", "breast_cancer.rules.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    for path in sample_files("breast_cancer"):
        shutil.copy(path, made)
    return made


def ask(folder: Path, *calls: tuple[str, dict[str, Any]], write: bool = False, over_stdio: bool = False) -> list[Any]:
    """What the server answers to these calls: a result as a mapping, or a refusal as text."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    arguments = ["-m", "spu_core", "mcp", str(folder), *(["--write"] if write else [])]

    async def talk() -> list[Any]:
        started = stdio_client(StdioServerParameters(command=sys.executable, args=arguments)) if over_stdio else None
        async with Client(started or make_server(folder, write=write)) as client:
            if not calls:
                return (await client.list_tools()).tools
            answers = [await client.call_tool(name, given) for name, given in calls]
            return [each.content[0].text if each.is_error else each.structured_content for each in answers]

    # In a thread of its own: browser tests keep an event loop running in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, talk()).result()


def test_an_agent_gets_from_a_table_to_scores(folder):
    bundles = [f"runs/{name}.spu" for name in ("01-logistic", "02-labeled_vs_rest")]
    study = {"file": TABLE, "rules": RULES, "methods": ["logistic", "labeled_vs_rest"], "folds": 2, "output": "runs"}

    profile, labelled, trained, compared, planned, scored = ask(
        folder,
        ("profile", {"file": TABLE}),
        ("label", {"file": TABLE, "rules": RULES}),
        ("train", study),
        ("compare", {"bundles": bundles}),
        ("plan_audit", {"bundle": bundles[0], "question": "which_better", "rival": bundles[1]}),
        ("score", {"bundle": bundles[0], "file": TABLE, "output": "scored.csv"}),
        write=True,
        over_stdio=True,
    )

    assert (profile["rows"], profile["confirmed_cases"]) == (569, 55)
    assert [each["rule"] for each in labelled["rules"]] == ["Large worst radius", "Rough worst texture"]
    assert trained["bundles"] == bundles
    assert trained["model"] == compared["model"]
    assert trained["leaderboard"] == compared["leaderboard"]
    assert "checks" in planned["sentence"]
    assert scored["rows"] == 569
    assert len(scored["top"]) == 50
    assert sum(1 for _ in (folder / "scored.csv").open()) == 570


def test_the_tools_say_that_they_only_read(folder):
    hints = {tool.name: tool.annotations.read_only_hint for tool in ask(folder)}

    assert hints == dict.fromkeys(["profile", "label", "train", "compare", "plan_audit", "score"], True)


def test_nothing_is_written_without_the_option_and_nothing_is_overwritten_with_it(folder):
    study = {"file": TABLE, "methods": ["labeled_vs_rest"], "folds": 2}

    [refused] = ask(folder, ("train", {**study, "output": "runs"}))
    [exists] = ask(folder, ("train", {**study, "output": TABLE}), write=True)

    assert refused.endswith("These tools may only read. Start the server with --write to let them write.")
    assert exists.endswith(f"{TABLE!r} exists; choose another name.")
    assert sorted(path.name for path in folder.iterdir()) == [TABLE, RULES]


def test_files_outside_the_folder_are_refused_and_errors_name_no_path_of_the_computer(folder):
    outside = folder.parent / "secret.csv"
    outside.write_text("a,b\n1,2\n")
    (folder / "link.csv").symlink_to(outside)
    (folder / "parts").mkdir()
    (folder / "parts" / "0.parquet").symlink_to(outside)

    *refused, missing = ask(
        folder,
        *(("profile", {"file": name}) for name in ("../secret.csv", str(outside), "link.csv", "parts", "absent.csv")),
    )

    assert all("is outside the folder that these tools may use" in each for each in refused)
    assert "absent.csv" in missing
    assert str(folder) not in missing
