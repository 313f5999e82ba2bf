"""Which run a command means: a bundle file, or a run of the workspace by its id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from spu_core.engines.export_files import ExportWords, StoredModel
from spu_core.errors import WorkspaceError, nearest_hint
from spu_core.export import Bundle, load_bundle
from spu_core.workspace import RunRecord, Workspace

Folder = Annotated[
    Path | None, typer.Option("--workspace", help="Its folder; default: SPU_HOME or your data directory.")
]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A bundle (.spu), or the id of a run in the workspace, or its start."),
]
RunNames = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Bundles (.spu) of one table, or ids of runs in the workspace."),
]
FEWEST_LETTERS = 4


def is_file(name: str) -> bool:
    """Whether a name means a file: ids have neither an ending nor a folder."""
    return name.endswith(".spu") or len(Path(name).parts) > 1 or Path(name).is_file()


def bundles_of(names: Sequence[str], folder: Path | None) -> list[Bundle]:
    """The bundles that these names mean, in their order; all stored runs are named as the workspace names them."""
    found = {name: load_bundle(name) for name in names if is_file(name)}
    stored = [name for name in names if name not in found]
    if stored:
        with Workspace.open(folder) as workspace:
            found |= {name: stored_model(workspace, name).bundle for name in stored}
    return [found[name] for name in names]


@contextmanager
def opened_model(name: str, folder: Path | None, words: ExportWords | None = None) -> Iterator[StoredModel]:
    """A run of the workspace, which stays open meanwhile."""
    with Workspace.open(folder) as workspace:
        yield stored_model(workspace, name, words)


def stored_model(workspace: Workspace, name: str, words: ExportWords | None = None) -> StoredModel:
    """The run of an id; without words, those of its last export."""
    record = find_run(workspace, name)
    words = words or ExportWords.last_said(workspace, record.id)
    return StoredModel(workspace, record, workspace.datasets.open(record.dataset), words)


def find_run(workspace: Workspace, name: str) -> RunRecord:
    """The run whose id is, or alone starts with, this text."""
    runs = workspace.runs.list()
    found = [run for run in runs if run.id.startswith(name)] if len(name) >= FEWEST_LETTERS else []
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkspaceError(f"{len(found)} runs start with {name[:40]!r}; write more of the id.")
    hint = nearest_hint(name[:40], [run.id for run in runs]) if runs else "The workspace has no runs."
    raise WorkspaceError(
        f"{name[:80]!r} is neither a file nor the id of a run in {workspace.folder}; `spu workspace list` shows ids. "
        f"{hint}"
    )
