"""Commands on the workspace: `spu workspace list`, `check`, `gc` and `backup`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from spu_core.commands.command_io import AsJson, Folder, print_result
from spu_core.workspace import Workspace, check, collect_garbage, in_bytes, list_objects, make_backup

commands = typer.Typer(help="The workspace: list, check, clean up and back up what is stored.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.add_typer(commands, name="workspace")


@commands.command("list")
def list_stored(workspace: Folder = None, as_json: AsJson = False) -> None:
    """List datasets, rule sets and runs with their sizes."""
    is_folder = workspace is None or not workspace.is_file()
    if is_folder and not Workspace.exists(workspace):
        print_result([], "There is no workspace here yet.", as_json)
        return
    with Workspace.open(workspace) as opened:
        stored = list_objects(opened)
    print_result(stored, "\n".join(map(str, stored)) or "Nothing is stored yet.", as_json)


@commands.command("check")
def check_stored(
    workspace: Folder = None,
    restore: Annotated[
        bool, typer.Option("--restore", help="Put the last good backup in place of a damaged one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check that everything is as it was saved; exit code 1 if something is wrong."""
    report = check(workspace, repair=restore)
    print_result(report, str(report), as_json)
    if not report.is_well:
        sys.exit(1)


@commands.command("gc")
def collect(workspace: Folder = None, as_json: AsJson = False) -> None:
    """Remove what was deleted, never finished, or belongs to nothing."""
    with Workspace.open(workspace) as opened:
        freed = collect_garbage(opened)
    print_result({"freed": freed}, f"{in_bytes(freed)} freed.", as_json)


@commands.command("backup")
def back_up(workspace: Folder = None, as_json: AsJson = False) -> None:
    """Make a backup of the catalogue."""
    with Workspace.open(workspace) as opened:
        path = make_backup(opened)
    print_result({"backup": str(path)}, str(path), as_json)
