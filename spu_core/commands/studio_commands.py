"""Commands on the installation: `spu version`."""

from __future__ import annotations

import typer

from spu_core.commands.command_io import AsJson, print_result
from spu_core.versions import __version__, library_versions


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("version")(show_version)


def show_version(as_json: AsJson = False) -> None:
    """Print the version; as JSON with those of the libraries that decide results."""
    print_result(library_versions(), __version__, as_json)
