"""Stored tables (addressed by content, with column roles), their rule sets, and cached results.

Every saved version of a rule set is kept, undo and redo switch between versions, and stale edits are refused. For a
table in a folder of the server, a sample of its rows is stored, and the survey of the folder.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spu_core import tables
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import CatalogueStore, insert
from spu_core.workspace.file_store import FileDraft, FileStore, discard_unreferenced
from spu_core.workspace.home import FolderOffer, FolderRoots, Home, make_private_folder
from spu_core.workspace.jobs import Jobs
from spu_core.workspace.records import DatasetRecord, FileRecord, RuleSetVersion, clean_name, new_id, to_json

if TYPE_CHECKING:
    from spu_core.tables import Table


_SELECT_RULE_SETS = (
    "SELECT rule_sets.id, rule_sets.name, rule_sets.dataset, versions.*, "
    "versions.number = rule_sets.current AS is_current "
    "FROM rule_sets JOIN rule_set_versions AS versions ON versions.rule_set = rule_sets.id"
)


@dataclass(frozen=True, slots=True)
class RuleSets(CatalogueStore):
    """The rule sets of a workspace, as JSON text."""

    def create(self, name: str, text: str, note: str = "", dataset: str | None = None) -> RuleSetVersion:
        """A new rule set whose first version is `text`; it opens with the dataset that it belongs to."""
        token = new_id()
        with self.catalogue.transaction() as rows:
            insert(rows, "rule_sets", id=token, name=clean_name(name), current=1, made=self._now(), dataset=dataset)
            self._insert(rows, (token, 1, None), text, note)
        return self.get(token)

    def save(self, edited: RuleSetVersion, text: str, note: str = "") -> RuleSetVersion:
        """A new version after `edited`; refused if another version became the current one meanwhile."""
        with self.catalogue.transaction() as rows:
            self._check_current(rows, edited)
            number = _last_number(rows, edited.id) + 1
            self._insert(rows, (edited.id, number, edited.number), text, note)
            _set_current(rows, edited.id, number)
        return self.get(edited.id)

    def undo(self, current: RuleSetVersion) -> RuleSetVersion:
        """Back to the version that `current` was edited from; nothing is removed."""
        if current.parent is None:
            raise WorkspaceError(
                f"Version {current.number} of rule set {current.name!r} is its first; nothing to undo."
            )
        return self._move(current, current.parent)

    def redo(self, current: RuleSetVersion) -> RuleSetVersion:
        """Forward to the latest version that was edited from `current`."""
        later = self.catalogue.row(
            "SELECT max(number) AS number FROM rule_set_versions WHERE rule_set = ? AND parent = ?",
            current.id,
            current.number,
        )
        if later is None or later["number"] is None:
            raise WorkspaceError(
                f"Nothing was edited from version {current.number} of {current.name!r}; nothing to redo."
            )
        return self._move(current, later["number"])

    def get(self, token: str, number: int | None = None) -> RuleSetVersion:
        """The current version, or the one with this number; raises an error if the stored text is damaged."""
        which = "versions.number = rule_sets.current" if number is None else "versions.number = ?"
        values = [token] if number is None else [token, number]
        row = self.catalogue.row(f"{_SELECT_RULE_SETS} WHERE rule_sets.id = ? AND {which}", *values)
        if row is None:
            raise storage_errors.unknown("rule set", token)
        version = RuleSetVersion.from_row(row)
        if not is_whole(version):
            raise storage_errors.damaged_file(
                "rule set", version.name, f"the text of version {version.number} has changed"
            )
        return version

    def list(self) -> tuple[RuleSetVersion, ...]:
        """The current version of every rule set, the newest rule set first."""
        return self.catalogue.records(
            RuleSetVersion, f"{_SELECT_RULE_SETS} WHERE versions.number = rule_sets.current ORDER BY rule_sets.seq DESC"
        )

    def copy(self, origin: RuleSetVersion, name: str, dataset: str) -> RuleSetVersion:
        """The same rules for another dataset; changes of the copy leave the original alone."""
        return self.create(name, origin.text, f"copied from {origin.name}, version {origin.number}", dataset)

    def newest_of(self, dataset: str) -> RuleSetVersion | None:
        """The newest rule set that belongs to a dataset, else the newest that a run of it used; None without either.

        A damaged one is skipped; opening it shows the error.
        """
        used = {row["rule_set"] for row in self.catalogue.rows("SELECT rule_set FROM runs WHERE dataset = ?", dataset)}
        whole = [each for each in self.list() if (each.dataset == dataset or each.id in used) and is_whole(each)]
        return next((each for each in whole if each.dataset == dataset), next(iter(whole), None))

    def history(self, token: str) -> tuple[RuleSetVersion, ...]:
        """Every saved version, the first one first."""
        rows = self.catalogue.rows(f"{_SELECT_RULE_SETS} WHERE rule_sets.id = ? ORDER BY versions.number", token)
        if not rows:
            raise storage_errors.unknown("rule set", token)
        return tuple(RuleSetVersion.from_row(row) for row in rows)

    def _move(self, current: RuleSetVersion, number: int) -> RuleSetVersion:
        with self.catalogue.transaction() as rows:
            self._check_current(rows, current)
            _set_current(rows, current.id, number)
        return self.get(current.id)

    def _check_current(self, rows: sqlite3.Connection, edited: RuleSetVersion) -> None:
        row = rows.execute("SELECT name, current FROM rule_sets WHERE id = ?", (edited.id,)).fetchone()
        if row is None:
            raise storage_errors.unknown("rule set", edited.name)
        if row["current"] != edited.number:
            raise storage_errors.stale_edit("rule set", row["name"], edited.number, row["current"])

    def _insert(self, rows: sqlite3.Connection, place: tuple[str, int, int | None], text: str, note: str) -> None:
        rule_set, number, parent = place
        values = {"text": text, "sha256": _hash(text), "note": note.strip(), "made": self._now()}
        insert(rows, "rule_set_versions", rule_set=rule_set, number=number, parent=parent, **values)


def is_whole(version: RuleSetVersion) -> bool:
    """Whether the text still has the hash it was saved with."""
    return _hash(version.text) == version.sha256


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _last_number(rows: sqlite3.Connection, token: str) -> int:
    return int(rows.execute("SELECT max(number) FROM rule_set_versions WHERE rule_set = ?", (token,)).fetchone()[0])


def _set_current(rows: sqlite3.Connection, token: str, number: int) -> None:
    rows.execute("UPDATE rule_sets SET current = ? WHERE id = ?", (number, token))


_SELECT = (
    "SELECT datasets.*, files.size, folders.path AS folder FROM datasets JOIN files ON files.id = datasets.file "
    "LEFT JOIN folders ON folders.dataset = datasets.id"
)


@dataclass(frozen=True, slots=True)
class Datasets:
    """The tables of a workspace."""

    files: FileStore
    home: Home
    converted: Converted

    def save(self, table: Table, name: str | None = None) -> DatasetRecord:
        """Store a table; returns the existing dataset where the same content has the same name.

        If that dataset was in a folder, its rows are now stored here, as a new version.
        """
        name = clean_name(table.name if name is None else name)
        described = _described(table)

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            known = _same_dataset(rows, table.fingerprint, name)
            if known is None:
                return self._insert(rows, table, {"name": name, "file": stored[0].id, **described})
            _move_rows_to_file(rows, known, stored[0].id)
            return known

        draft = FileDraft("dataset", table.to_parquet, address=table.fingerprint)
        return self.get(self.files.save([draft], record))

    def save_edited(self, table: Table, edited: DatasetRecord) -> DatasetRecord:
        """Store a table whose columns were read differently, as a new dataset with the same name.

        Where the values stay the same and only their types differ, it is a new version of the same dataset.
        """
        if table.fingerprint != edited.fingerprint:
            return self.save(table, edited.name)
        kinds = to_json({name: kind.value for name, kind in table.types.items()}, "types")

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            changed = rows.execute(
                "UPDATE datasets SET file = :file, roles = :roles, positive_values = :positive_values, "
                "truth_values = :truth_values, version = version + 1 WHERE id = :id AND version = :version",
                {**_described(table), "file": stored[0].id, "id": edited.id, "version": edited.version},
            ).rowcount
            if not changed:
                raise storage_errors.stale_edit("dataset", edited.name, edited.version, self.get(edited.id).version)
            discard_unreferenced(rows)
            return edited.id

        digest = hashlib.sha256(kinds.encode()).hexdigest()
        draft = FileDraft("dataset", table.to_parquet, address=f"{table.fingerprint} types {digest}")
        return self.get(self.files.save([draft], record))

    def save_folder(self, folder: Table, sample: Table) -> DatasetRecord:
        """Register a table that stays in its folder, with a sample to explore.

        Where the same content has the same name, the existing dataset gets a new version. A dataset whose rows are
        stored here stays unchanged.
        """
        name = clean_name(folder.name)
        path = tables.parquet_store(folder).path
        place = self.converted.place_of(path) or str(self._offered(path, folder).path)
        survey, described = tables.survey_to_json(folder), _described(folder)

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            values = {"name": name, "file": stored[0].id, **described}
            known = _same_dataset(rows, folder.fingerprint, name)
            if known is not None and not _is_in_folder(rows, known):
                discard_unreferenced(rows)  # the sample
                return known
            if known is not None:
                rows.execute("UPDATE datasets SET version = version + 1 WHERE id = ?", (known,))
            token = known or self._insert(rows, folder, values)
            rows.execute("INSERT OR REPLACE INTO folders VALUES (?, ?, ?)", (token, place, survey))
            return token

        draft = FileDraft("dataset", sample.to_parquet, address=f"{folder.fingerprint} sample {len(sample)}")
        return self.get(self.files.save([draft], record))

    def get(self, token: str) -> DatasetRecord:
        return self.files.catalogue.record(DatasetRecord, "dataset", f"{_SELECT} WHERE datasets.id = ?", token)

    def list(self) -> tuple[DatasetRecord, ...]:
        """All datasets, the newest first (by the order of saving, which does not depend on the clock)."""
        return self.files.catalogue.records(DatasetRecord, f"{_SELECT} ORDER BY datasets.seq DESC")

    def path(self, token: str) -> Path:
        """The parquet file of a dataset, after its hash was checked."""
        record = self.get(token)
        return self.files.verified(record.file, "dataset", record.name)

    def load(self, token: str) -> Table:
        """The table with its saved roles, all rows in memory."""
        record = self.get(token)
        if record.folder is not None:
            raise storage_errors.lies_in_folder(record.name, record.n_rows)
        return self.with_saved_roles(tables.Table.from_parquet(self.path(token)), record)

    def open(self, token: str) -> Table:
        """All rows with their saved roles: in memory, or as an unchanged folder that is read in parts."""
        record = self.get(token)
        if record.folder is None:
            return self.load(token)
        folder = self.folder(token)
        refuse_changes(folder)
        return folder

    def folder(self, token: str) -> Table:
        """A folder as it was registered, below a root that is still allowed; its files may have changed since."""
        record = self.get(token)
        row = self.files.catalogue.row("SELECT path, survey FROM folders WHERE dataset = ?", token)
        if row is None:
            raise storage_errors.unknown("folder", record.name)
        own = self.converted.path_of(row["path"])
        path = self.roots.find(row["path"]).path if own is None else own
        saved = {**_saved(record), "known_fingerprint": record.fingerprint}
        folder = tables.folder_from_survey(row["survey"], path, **saved)
        if own is None:
            self._offered(path, folder)
        return folder

    def explore(self, token: str) -> Table:
        """The rows to explore, with their saved roles: the whole table, or the sample of a folder."""
        record = self.get(token)
        if record.folder is None:
            return self.load(token)
        return self.with_saved_roles(tables.Table.from_parquet(self.path(token), is_part=True), record)

    @property
    def roots(self) -> FolderRoots:
        """Where folders may be registered, as the operator allows it now."""
        return FolderRoots.allowed(self.home)

    def with_saved_roles(self, table: Table, record: DatasetRecord) -> Table:
        """The same rows with the name, roles and values that people gave to the dataset."""
        return replace(table, **_saved(record))

    def save_roles(self, table: Table, edited: DatasetRecord) -> DatasetRecord:
        """Store the roles and positive values of `table`, unless somebody saved others since `edited` was read."""
        described = _described(table)
        with self.files.catalogue.transaction() as rows:
            changed = rows.execute(
                "UPDATE datasets SET roles = :roles, positive_values = :positive_values, "
                "truth_values = :truth_values, version = version + 1 WHERE id = :id AND version = :version",
                {**described, "id": edited.id, "version": edited.version},
            ).rowcount
        now = self.get(edited.id)
        if not changed:
            raise storage_errors.stale_edit("dataset", now.name, edited.version, now.version)
        return now

    def save_origin(self, token: str, origin: str) -> DatasetRecord:
        """Store how the confirmed cases were found. It changes neither rows nor roles, so it is no new version."""
        self.get(token)
        with self.files.catalogue.transaction() as rows:
            rows.execute("UPDATE datasets SET origin = ? WHERE id = ?", (origin, token))
        return self.get(token)

    def _offered(self, path: Path, folder: Table) -> FolderOffer:
        """The offer of a folder that is below an allowed root with all its files."""
        roots = self.roots
        offer = roots.find(path)
        roots.refuse_links(offer, (file.path for file in tables.parquet_store(folder).files))
        return offer

    def rename(self, token: str, name: str) -> DatasetRecord:
        """Change the name in the catalogue; files are not moved."""
        self.get(token)
        with self.files.catalogue.transaction() as rows:
            rows.execute("UPDATE OR IGNORE datasets SET name = ? WHERE id = ?", (clean_name(name), token))
        return self.get(token)

    def _insert(self, rows: sqlite3.Connection, table: Table, values: Mapping[str, Any]) -> str:
        token = new_id()
        size = {"n_rows": len(table), "n_columns": len(table.roles)}
        made = self.files.clock().isoformat()
        insert(rows, "datasets", id=token, fingerprint=table.fingerprint, version=1, made=made, **size, **values)
        return token


def refuse_changes(folder: Table) -> None:
    """Refuse a registered folder whose files are no longer those that were read."""
    changed = tables.parquet_store(folder).changed_files
    if changed:
        raise storage_errors.changed_folder(folder.name, changed)


def _saved(record: DatasetRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "roles": {column: tables.Role(role) for column, role in record.roles.items()},
        "positive_values": tuple(record.positive_values),
        "truth_values": tuple(record.truth_values),
    }


def _described(table: Table) -> dict[str, str]:
    return {
        "roles": to_json(table.roles, "roles"),
        "positive_values": to_json(table.positive_values, "positive_values"),
        "truth_values": to_json(table.truth_values, "truth_values"),
    }


def _same_dataset(rows: sqlite3.Connection, fingerprint: str, name: str) -> str | None:
    found = rows.execute("SELECT id FROM datasets WHERE fingerprint = ? AND name = ?", (fingerprint, name)).fetchone()
    return None if found is None else found["id"]


def _is_in_folder(rows: sqlite3.Connection, token: str) -> bool:
    return rows.execute("SELECT 1 FROM folders WHERE dataset = ?", (token,)).fetchone() is not None


def _move_rows_to_file(rows: sqlite3.Connection, token: str, file: str) -> None:
    """Give a dataset that was in a folder its rows in a file of the workspace; leave other datasets unchanged."""
    if rows.execute("DELETE FROM folders WHERE dataset = ?", (token,)).rowcount:
        rows.execute("UPDATE datasets SET file = ?, version = version + 1 WHERE id = ?", (file, token))
        discard_unreferenced(rows)


_PLACE = re.compile(r"converted/[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Converted:
    """Converted folders under random ids; the catalogue stores paths relative to the workspace, which may move."""

    workspace: Path
    jobs: Jobs

    def new(self) -> Path:
        """Where the next folder may be made."""
        make_private_folder(self.folder)
        return self.folder / new_id()

    def place_of(self, path: Path) -> str | None:
        """The relative path of one of these folders; None for any other folder."""
        return f"converted/{path.name}" if path.parent == self.folder else None

    def path_of(self, place: str) -> Path | None:
        """The folder at a relative path; None for any other path."""
        return self.workspace / place if _PLACE.fullmatch(place) else None

    def remove_leftovers(self) -> None:
        """Remove folders without a dataset, unless a running job may create or read one."""
        found = list(self.folder.glob("*"))
        if not found or self.jobs.active():
            return
        known = {row["path"] for row in self.jobs.catalogue.rows("SELECT path FROM folders")}
        for path in found:
            if self.place_of(path) not in known:
                shutil.rmtree(path, ignore_errors=True)

    @property
    def folder(self) -> Path:
        return self.workspace / "converted"


_NAME = re.compile(r"([0-9a-f]{24})-(\d+)-\w+\.json")


@dataclass(frozen=True, slots=True)
class Derived:
    """Cached texts by dataset and version of its roles. A missing text is computed again."""

    files: FileStore

    def get(self, dataset: DatasetRecord, what: str) -> str | None:
        """The stored text; None where there is none."""
        try:
            return self._path(dataset, what).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def keep(self, dataset: DatasetRecord, what: str, text: str) -> None:
        """Store a text in place of earlier versions; a workspace that cannot be written skips this."""
        if self.files.catalogue.read_only:
            return
        target = self._path(dataset, what)
        with storage_errors.readable_errors(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            draft = self.folder / f"{new_id()}.draft"
            try:
                draft.write_text(text, "utf-8")
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Remove texts of deleted datasets and of versions that are not current."""
        current = {(row["id"], row["version"]) for row in self.files.catalogue.rows("SELECT id, version FROM datasets")}
        for path in self.folder.glob("*.json"):
            named = _NAME.fullmatch(path.name)
            if named is None or (named[1], int(named[2])) not in current:
                path.unlink(missing_ok=True)

    @property
    def folder(self) -> Path:
        return self.files.catalogue.folder / "derived"

    def _path(self, dataset: DatasetRecord, what: str) -> Path:
        return self.folder / f"{dataset.id}-{dataset.version}-{what}.json"
