"""The `spu` command: everything the dashboard does, without a browser.

Exit codes: 0 done, 1 the engine refused in words (or a check found something wrong), 2 the command was called wrongly,
3 a fault of ours, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from spu_core import __version__
from spu_core.commands import (
    bench_command,
    data_commands,
    export_commands,
    model_commands,
    outcome_commands,
    paper_command,
    trust_commands,
    workspace_commands,
)
from spu_core.commands.command_io import AsJson, print_result
from spu_core.errors import SpuError, WorkspaceError
from spu_core.versions import library_versions

REFUSED, FAULT = 1, 3

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command; what the caller can fix is said in a sentence, without a traceback."""
    # Threads of boosters that wait must not spin: on a busy computer that costs more than it saves.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app(prog_name="spu")
    except SpuError as problem:
        refuse(str(problem), REFUSED)
    except OSError as problem:
        place = f"{problem.filename!r}: " if problem.filename else ""
        refuse(f"{place}{problem.strerror or problem}.", REFUSED)
    except MemoryError:
        refuse("There is not enough memory for this; use fewer rows or columns.", REFUSED)
    except Exception as problem:
        if os.environ.get("SPU_TRACEBACK"):
            raise
        refuse(f"A fault of ours ({type(problem).__name__}: {problem}). Set SPU_TRACEBACK=1 to see where.", FAULT)


def refuse(sentence: str, code: int) -> None:
    """End with a sentence on standard error; as JSON for a program that asked for it."""
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": sentence, "exit_code": code}, ensure_ascii=True), err=True)
    else:
        typer.secho(sentence, fg="red", err=True)
    sys.exit(code)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Soft-label positive-unlabelled learning from the command line."""


@app.command("version")
def show_version(as_json: AsJson = False) -> None:
    """Print the version; as JSON with those of the libraries that decide results."""
    print_result(library_versions(), __version__, as_json)


@app.command("app")
def open_dashboard(
    workspace: Annotated[Path | None, typer.Option(help="Folder for your work; default: your data directory.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; any but this computer's own needs a working login.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this computer; 0 picks a free one.")] = 8501,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
) -> None:
    """Open the dashboard in the browser; it listens on this computer only, unless a login is configured."""
    folder = dashboard_folder()
    environment = dict(os.environ)
    if workspace is not None:
        environment["SPU_HOME"] = str(workspace.expanduser().absolute())
    command = [sys.executable, "-m", "pages.ui.launch", "--server.port", str(port)]
    command += ["--server.headless", "false" if browser else "true"]
    command += [] if host is None else ["--server.address", host]
    # Streamlit reads .streamlit/config.toml from the folder it is started in.
    with subprocess.Popen(command, cwd=folder, env=environment) as server:
        try:
            sys.exit(server.wait())
        except KeyboardInterrupt:
            server.terminate()


data_commands.add_to(app)
model_commands.add_to(app)
export_commands.add_to(app)
paper_command.add_to(app)
outcome_commands.add_to(app)
trust_commands.add_to(app)
app.add_typer(bench_command.commands, name="bench")
app.add_typer(workspace_commands.commands, name="workspace")


def dashboard_folder() -> Path:
    """Where `app.py` lies: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "_dashboard", package.parent):
        if (folder / "app.py").is_file() and (folder / "pages").is_dir():
            return folder
    raise WorkspaceError(f"The dashboard's app.py was not found beside {package}; install spu-studio again.")
