"""Commands on the workspace: list, check and restore, collect garbage, back up."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from spu_core.commands.choice import Folder
from spu_core.commands.output import AsJson, say
from spu_core.workspace import Workspace, check, collect_garbage, in_bytes, list_objects, make_backup

commands = typer.Typer(help="What is stored: list it, check it, tidy it, back it up.", no_args_is_help=True)


@commands.command("list")
def list_stored(workspace: Folder = None, as_json: AsJson = False) -> None:
    """List datasets, rule sets and runs with their sizes."""
    with Workspace.open(workspace) as opened:
        stored = list_objects(opened)
    say(stored, "\n".join(map(str, stored)) or "Nothing is stored yet.", as_json)


@commands.command("check")
def check_stored(
    workspace: Folder = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Put the last good backup in place of a damaged one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what is not as it was saved; exit code 1 where something is wrong."""
    report = check(workspace, repair=restore)
    say(report, str(report), as_json)
    if not report.is_well:
        sys.exit(1)


@commands.command("gc")
def collect(workspace: Folder = None, as_json: AsJson = False) -> None:
    """Remove what was deleted, never finished, or belongs to nothing."""
    with Workspace.open(workspace) as opened:
        freed = collect_garbage(opened)
    say({"freed": freed}, f"{in_bytes(freed)} freed.", as_json)


@commands.command("backup")
def back_up(workspace: Folder = None, as_json: AsJson = False) -> None:
    """Keep a copy of the catalogue as it is now."""
    with Workspace.open(workspace) as opened:
        path = make_backup(opened)
    say({"backup": str(path)}, str(path), as_json)
