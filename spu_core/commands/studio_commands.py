"""Commands on the installation: `spu version` and `doctor`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Any

import typer

from spu_core.commands.command_io import AsJson, Folder, print_result
from spu_core.versions import __version__, library_versions
from spu_core.workspace import Workspace, in_bytes
from spu_core.workspace.home import Home

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extra>[\w-]+)\])?")
# Extras that only developers need.
FOR_DEVELOPERS = {"dev", "test"}


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("version")(show_version)
    app.command("doctor")(doctor)


def show_version(as_json: AsJson = False) -> None:
    """Print the version; as JSON with those of the libraries that decide results."""
    print_result(library_versions(), __version__, as_json)


def doctor(workspace: Folder = None, as_json: AsJson = False) -> None:
    """Show what a bug report needs: versions, extras, workspace, disk, memory and browser; nothing is changed."""
    found = {
        "versions": {**library_versions(), "streamlit": _version("streamlit"), "typer": _version("typer")},
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "extras": extras(),
        "workspace": _workspace(workspace),
        "browser": next((name for name in BROWSERS if shutil.which(name)), None),
        "executable": Path(sys.executable).name,
    }
    print_result(found, "\n".join(_lines(found)), as_json)


def extras() -> dict[str, list[str]]:
    """Each extra with the libraries that it lacks; none where it is installed."""
    missing: dict[str, list[str]] = {}
    for name in distribution("spu-studio").metadata.get_all("Provides-Extra") or []:
        if name not in FOR_DEVELOPERS:
            missing[name] = _missing("spu-studio", name)
    return missing


def _missing(library: str, extra: str) -> list[str]:
    """What an extra of a library lacks; it may ask for extras of other libraries in turn."""
    found = []
    for entry in requires(library) or []:
        wanted = REQUIREMENT.match(entry)
        if wanted is None or f"extra == '{extra}'" not in entry.replace('"', "'"):
            continue
        if _version(wanted["name"]) is None:
            found.append(wanted["name"])
        elif wanted["extra"]:
            found += _missing(wanted["name"], wanted["extra"])
    return found


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _workspace(folder: Path | None) -> dict[str, Any]:
    """Whether there is a workspace, whether it can be written, and the space around it."""
    place = Home.default().folder if folder is None else folder.expanduser().absolute()
    near = next(each for each in (place, *place.parents) if each.exists())
    return {
        "folder": str(place),
        "exists": Workspace.exists(folder),
        "can_be_written": os.access(near, os.W_OK),
        "free_bytes": shutil.disk_usage(near).free,
    }


def _lines(found: dict[str, Any]) -> list[str]:
    versions = [f"  {name} {number}" for name, number in found["versions"].items() if number]
    lines = ["Versions:", *versions, f"System: {found['system']}", "Extras:"]
    for name, missing in found["extras"].items():
        state = "installed" if not missing else f"missing {', '.join(missing)}: pip install 'spu-studio[{name}]'"
        lines.append(f"  {name}: {state}")
    place = found["workspace"]
    state = "exists" if place["exists"] else "does not exist yet"
    writing = "can be written" if place["can_be_written"] else "CANNOT be written"
    lines.append(f"Workspace: {place['folder']} {state}, {writing}, {in_bytes(place['free_bytes'])} free")
    return [*lines, f"Browser: {found['browser'] or 'none found on the path'}"]
