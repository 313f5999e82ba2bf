"""The `spu` command: everything the dashboard does, without a browser.

Exit codes: 0 done, 1 the engine refused in words (or a check found something wrong), 2 the command was called wrongly,
3 a fault of ours, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from spu_core import __version__
from spu_core.commands.command_index import add_all_to
from spu_core.errors import SpuError, WorkspaceError

REFUSED, CALLED_WRONGLY, FAULT, STOPPED = 1, 2, 3, 130

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command; what the caller can fix is said in a sentence, without a traceback."""
    # Threads of boosters that wait must not spin: on a busy computer that costs more than it saves.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        _run()
    except KeyboardInterrupt:
        refuse("Stopped.", STOPPED)
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


def _run() -> None:
    """Run the command; for a program that asked for JSON, a wrong call is JSON too."""
    wants_json = "--json" in sys.argv
    try:
        code = app(prog_name="spu", standalone_mode=not wants_json)
    except SystemExit as end:
        code = end.code
    except Exception as problem:
        # Typer's exceptions of this kind, for which it has no public name, have a method that makes the sentence.
        if not wants_json or not hasattr(problem, "format_message"):
            raise
        refuse(problem.format_message() or "A command is missing; see `spu --help`.", CALLED_WRONGLY)
    if code == STOPPED:
        refuse("Stopped.", STOPPED)
    sys.exit(code)


def refuse(sentence: str, code: int) -> NoReturn:
    """End with a sentence on standard error; as JSON for a program that asked for it."""
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": sentence, "exit_code": code}, ensure_ascii=True), err=True)
    else:
        typer.secho(sentence, fg=None if code == STOPPED else "red", err=True)
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

    def end(number: int, _: Any) -> NoReturn:
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):  # either ends the server with this process
        signal.signal(number, end)
    # Streamlit reads .streamlit/config.toml from the folder it is started in.
    with subprocess.Popen(command, cwd=folder, env=environment) as server:
        try:
            sys.exit(server.wait())
        finally:
            server.terminate()


add_all_to(app)


def dashboard_folder() -> Path:
    """Where `app.py` lies: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "_dashboard", package.parent):
        if (folder / "app.py").is_file() and (folder / "pages").is_dir():
            return folder
    raise WorkspaceError(f"The dashboard's app.py was not found beside {package}; install spu-studio again.")
