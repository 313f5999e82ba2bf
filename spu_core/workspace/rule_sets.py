"""Rule sets: every saved version is kept, undo and redo switch between versions, and stale edits are refused."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass

from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import CatalogueStore, insert
from spu_core.workspace.records import RuleSetVersion, clean_name, new_id

_SELECT = (
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
        row = self.catalogue.row(f"{_SELECT} WHERE rule_sets.id = ? AND {which}", *values)
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
            RuleSetVersion, f"{_SELECT} WHERE versions.number = rule_sets.current ORDER BY rule_sets.seq DESC"
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
        rows = self.catalogue.rows(f"{_SELECT} WHERE rule_sets.id = ? ORDER BY versions.number", token)
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
