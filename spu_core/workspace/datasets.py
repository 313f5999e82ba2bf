"""Stored tables: addressed by content, with the roles that people gave their columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spu_core.workspace import words
from spu_core.workspace.files import FileDraft, FileStore
from spu_core.workspace.records import DatasetRecord, FileRecord
from spu_core.workspace.values import clean_name, new_id, to_json

if TYPE_CHECKING:
    from spu_core.tables import Table

_SELECT = "SELECT datasets.*, files.size FROM datasets JOIN files ON files.id = datasets.file"


@dataclass(frozen=True, slots=True)
class Datasets:
    """The tables of a workspace."""

    files: FileStore

    def save(self, table: Table, name: str | None = None) -> DatasetRecord:
        """Store a table; the same content under the same name is the dataset that is there already."""
        name = clean_name(table.name if name is None else name)
        described = _described(table)

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            found = _same(rows, table.fingerprint, name)
            return found or self._insert(rows, table, {"name": name, "file": stored[0].id, **described})

        draft = FileDraft("dataset", table.to_parquet, address=table.fingerprint)
        return self.get(self.files.save([draft], record))

    def get(self, token: str) -> DatasetRecord:
        row = self.files.catalogue.row(f"{_SELECT} WHERE datasets.id = ?", token)
        if row is None:
            raise words.unknown("dataset", token)
        return DatasetRecord.from_row(row)

    def list(self) -> tuple[DatasetRecord, ...]:
        """All datasets, the newest first (by the order of saving, which no clock can change)."""
        rows = self.files.catalogue.rows(f"{_SELECT} ORDER BY datasets.seq DESC")
        return tuple(DatasetRecord.from_row(row) for row in rows)

    def path(self, token: str) -> Path:
        """The parquet file of a dataset, after its hash was checked."""
        record = self.get(token)
        return self.files.verified(record.file, "dataset", record.name)

    def load(self, token: str) -> Table:
        """The table with its saved roles."""
        from spu_core.tables import Table

        return self.with_saved_roles(Table.from_parquet(self.path(token)), self.get(token))

    def with_saved_roles(self, table: Table, record: DatasetRecord) -> Table:
        """The same rows with the name, roles and values that people gave to the dataset."""
        from spu_core.tables import Role

        return replace(
            table,
            name=record.name,
            roles={column: Role(role) for column, role in record.roles.items()},
            positive_values=tuple(record.positive_values),
            truth_values=tuple(record.truth_values),
        )

    def save_roles(self, table: Table, edited: DatasetRecord) -> DatasetRecord:
        """Keep the roles and positive values of `table`, unless somebody saved others since `edited` was read."""
        described = _described(table)
        with self.files.catalogue.transaction() as rows:
            changed = rows.execute(
                "UPDATE datasets SET roles = :roles, positive_values = :positive_values, "
                "truth_values = :truth_values, version = version + 1 WHERE id = :id AND version = :version",
                {**described, "id": edited.id, "version": edited.version},
            ).rowcount
        now = self.get(edited.id)
        if not changed:
            raise words.stale_edit("dataset", now.name, edited.version, now.version)
        return now

    def rename(self, token: str, name: str) -> DatasetRecord:
        """Another name in the catalogue; nothing on disk moves."""
        self.get(token)
        with self.files.catalogue.transaction() as rows:
            rows.execute("UPDATE OR IGNORE datasets SET name = ? WHERE id = ?", (clean_name(name), token))
        return self.get(token)

    def _insert(self, rows: sqlite3.Connection, table: Table, values: Mapping[str, Any]) -> str:
        token = new_id()
        rows.execute(
            "INSERT INTO datasets (id, name, fingerprint, file, n_rows, n_columns, roles, positive_values, "
            "truth_values, version, made) VALUES (:id, :name, :fingerprint, :file, :n_rows, :n_columns, :roles, "
            ":positive_values, :truth_values, 1, :made)",
            {
                **values,
                "id": token,
                "fingerprint": table.fingerprint,
                "n_rows": table.frame.shape[0],
                "n_columns": table.frame.shape[1],
                "made": self.files.clock().isoformat(),
            },
        )
        return token


def _described(table: Table) -> dict[str, str]:
    return {
        "roles": to_json(table.roles, "roles"),
        "positive_values": to_json(table.positive_values, "positive_values"),
        "truth_values": to_json(table.truth_values, "truth_values"),
    }


def _same(rows: sqlite3.Connection, fingerprint: str, name: str) -> str | None:
    found = rows.execute("SELECT id FROM datasets WHERE fingerprint = ? AND name = ?", (fingerprint, name)).fetchone()
    return None if found is None else found["id"]
