"""The tables of a catalogue, and the steps from each schema version to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

# "SPUS", in the header of every catalogue, to recognise databases of other programs.
APPLICATION_ID = 0x53505553

_FIRST = """
CREATE TABLE workspace (id TEXT PRIMARY KEY, made TEXT NOT NULL) STRICT;
CREATE TABLE files (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, address TEXT, sha256 TEXT NOT NULL, size INTEGER NOT NULL,
  made TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX one_copy_per_address ON files (kind, address) WHERE address IS NOT NULL;
CREATE TABLE discarded (file TEXT PRIMARY KEY, kind TEXT NOT NULL) STRICT;
CREATE TABLE datasets (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, fingerprint TEXT NOT NULL,
  file TEXT NOT NULL REFERENCES files (id), n_rows INTEGER NOT NULL, n_columns INTEGER NOT NULL,
  roles TEXT NOT NULL, positive_values TEXT NOT NULL, truth_values TEXT NOT NULL, version INTEGER NOT NULL,
  made TEXT NOT NULL, UNIQUE (fingerprint, name)
) STRICT;
CREATE INDEX datasets_by_file ON datasets (file);
CREATE TABLE rule_sets (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  current INTEGER NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE TABLE rule_set_versions (
  rule_set TEXT NOT NULL REFERENCES rule_sets (id) ON DELETE CASCADE, number INTEGER NOT NULL, parent INTEGER,
  text TEXT NOT NULL, sha256 TEXT NOT NULL, note TEXT NOT NULL, made TEXT NOT NULL, PRIMARY KEY (rule_set, number)
) STRICT;
CREATE TABLE candidates (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, method TEXT NOT NULL,
  settings TEXT NOT NULL, version INTEGER NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, title TEXT NOT NULL,
  parameters TEXT NOT NULL, limits TEXT NOT NULL, status TEXT NOT NULL, attempt INTEGER NOT NULL,
  share REAL NOT NULL, message TEXT NOT NULL, detail TEXT NOT NULL, result TEXT NOT NULL, error TEXT NOT NULL,
  cancel_requested INTEGER NOT NULL, worker TEXT NOT NULL, heartbeat TEXT NOT NULL,
  made TEXT NOT NULL, started TEXT NOT NULL, ended TEXT NOT NULL
) STRICT;
CREATE TABLE runs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  dataset TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE, dataset_fingerprint TEXT NOT NULL,
  rule_set TEXT REFERENCES rule_sets (id) ON DELETE CASCADE, rule_set_version INTEGER,
  candidate_id TEXT REFERENCES candidates (id) ON DELETE SET NULL, candidate TEXT NOT NULL,
  job TEXT REFERENCES jobs (id) ON DELETE SET NULL,
  file TEXT NOT NULL REFERENCES files (id), scores TEXT REFERENCES files (id),
  config TEXT NOT NULL, versions TEXT NOT NULL, summary TEXT NOT NULL, made TEXT NOT NULL,
  FOREIGN KEY (rule_set, rule_set_version) REFERENCES rule_set_versions (rule_set, number)
    ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED
) STRICT;
CREATE INDEX runs_by_dataset ON runs (dataset);
CREATE INDEX runs_by_rule_set ON runs (rule_set, rule_set_version);
CREATE TABLE thresholds (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL,
  threshold REAL NOT NULL, flagged_share REAL NOT NULL, detail TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX thresholds_by_run ON thresholds (run);
CREATE TABLE exports (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, name TEXT NOT NULL, format TEXT NOT NULL,
  file TEXT NOT NULL REFERENCES files (id), detail TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX exports_by_run ON exports (run);
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
  row INTEGER NOT NULL, is_positive INTEGER NOT NULL, detail TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX outcomes_by_dataset ON outcomes (dataset, row);
"""

_AUDITS = """
CREATE TABLE audits (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  dataset TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE, rule_set TEXT, rule_set_version INTEGER,
  name TEXT NOT NULL, plan TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX audits_by_run ON audits (run);
CREATE TABLE verdicts (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, audit TEXT NOT NULL REFERENCES audits (id) ON DELETE CASCADE,
  row INTEGER NOT NULL, reviewer TEXT NOT NULL, verdict TEXT NOT NULL, note TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX verdicts_by_audit ON verdicts (audit, row);
"""

# The triggers ensure that recorded rows are never changed.
_QUEUES = """
CREATE TABLE queues (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  dataset TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE, name TEXT NOT NULL, plan TEXT NOT NULL,
  made TEXT NOT NULL
) STRICT;
CREATE INDEX queues_by_dataset ON queues (dataset);
CREATE TABLE queue_entries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL REFERENCES queues (id) ON DELETE CASCADE,
  row INTEGER NOT NULL, user TEXT NOT NULL, arm TEXT NOT NULL, score REAL, soft_label REAL, reasons TEXT NOT NULL,
  UNIQUE (queue, row)
) STRICT;
CREATE TABLE feedbacks (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, target TEXT NOT NULL,
  detail TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE TRIGGER outcomes_stay BEFORE UPDATE ON outcomes BEGIN
  SELECT RAISE(ABORT, 'a recorded outcome is never changed, record another one');
END;
CREATE TRIGGER queues_stay BEFORE UPDATE ON queues BEGIN
  SELECT RAISE(ABORT, 'a stored queue is never changed, make another one');
END;
CREATE TRIGGER queue_entries_stay BEFORE UPDATE ON queue_entries BEGIN
  SELECT RAISE(ABORT, 'an entry of a queue is never changed');
END;
CREATE TRIGGER feedbacks_stay BEFORE UPDATE ON feedbacks BEGIN
  SELECT RAISE(ABORT, 'lineage is never changed');
END;
"""

# Datasets that stay in a folder of the server; their row in `files` is the sample to explore.
_FOLDERS = """
CREATE TABLE folders (
  dataset TEXT PRIMARY KEY REFERENCES datasets (id) ON DELETE CASCADE, path TEXT NOT NULL, survey TEXT NOT NULL
) STRICT;
"""

# How the confirmed cases of a dataset were found.
_ORIGINS = """
ALTER TABLE datasets ADD COLUMN origin TEXT NOT NULL DEFAULT 'unknown';
"""

# Verdicts belong to the dataset: an audit stays when the run is deleted that its rows were drawn by.
_DATASET_AUDITS = """
CREATE TEMP TABLE kept_audits AS SELECT * FROM audits;
CREATE TEMP TABLE kept_verdicts AS SELECT * FROM verdicts;
DROP TABLE verdicts;
DROP TABLE audits;
CREATE TABLE audits (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
  run TEXT REFERENCES runs (id) ON DELETE SET NULL,
  dataset TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE, rule_set TEXT, rule_set_version INTEGER,
  name TEXT NOT NULL, plan TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX audits_by_run ON audits (run);
CREATE INDEX audits_by_dataset ON audits (dataset);
CREATE TABLE verdicts (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, audit TEXT NOT NULL REFERENCES audits (id) ON DELETE CASCADE,
  row INTEGER NOT NULL, reviewer TEXT NOT NULL, verdict TEXT NOT NULL, note TEXT NOT NULL, made TEXT NOT NULL
) STRICT;
CREATE INDEX verdicts_by_audit ON verdicts (audit, row);
INSERT INTO audits SELECT * FROM temp.kept_audits;
INSERT INTO verdicts SELECT * FROM temp.kept_verdicts;
DROP TABLE temp.kept_audits;
DROP TABLE temp.kept_verdicts;
"""

# Reviewing one row at a time: how, who has which row open, and verdicts that were taken back.
_REVIEWS = """
CREATE TABLE review_settings (
  audit TEXT PRIMARY KEY REFERENCES audits (id) ON DELETE CASCADE, twice INTEGER NOT NULL, columns TEXT NOT NULL
) STRICT;
CREATE TABLE review_claims (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, audit TEXT NOT NULL REFERENCES audits (id) ON DELETE CASCADE,
  row INTEGER NOT NULL, reviewer TEXT NOT NULL, is_skipped INTEGER NOT NULL, UNIQUE (audit, row, reviewer)
) STRICT;
CREATE TABLE withdrawn_verdicts (
  verdict INTEGER PRIMARY KEY REFERENCES verdicts (seq) ON DELETE CASCADE, made TEXT NOT NULL
) STRICT;
"""

# The dataset that a rule set belongs to: earlier ones belong to the dataset of their first run, or of their name.
_RULE_SET_DATASETS = """
ALTER TABLE rule_sets ADD COLUMN dataset TEXT;
UPDATE rule_sets SET dataset = coalesce(
  (SELECT runs.dataset FROM runs WHERE runs.rule_set = rule_sets.id ORDER BY runs.seq LIMIT 1),
  (SELECT datasets.id FROM datasets WHERE datasets.name = rule_sets.name ORDER BY datasets.seq DESC LIMIT 1)
);
"""

# MIGRATIONS[k] leads from schema version k to k + 1. A published step is never edited; a change is a new step.
MIGRATIONS: tuple[str, ...] = (
    _FIRST,
    _AUDITS,
    _QUEUES,
    _FOLDERS,
    _ORIGINS,
    _DATASET_AUDITS,
    _REVIEWS,
    _RULE_SET_DATASETS,
)


def known_version() -> int:
    """The newest schema version this program can open."""
    return len(MIGRATIONS)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Run the missing steps; the caller holds the transaction, so a failed step leaves the old version unchanged."""
    for step in MIGRATIONS[version:]:
        for statement in _statements(step):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {known_version()}")


def objects_in(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Every table, index, view and trigger with the text that made it."""
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
    return {(kind, name, sql) for kind, name, sql in rows if not _made_by_sqlite(kind, name)}


def expected_objects(version: int) -> set[tuple[str, str, str]]:
    """What a catalogue of `version` consists of, made by the same steps in memory."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for step in MIGRATIONS[:version]:
            memory.executescript(step)
        return objects_in(memory)
    finally:
        memory.close()


def _statements(step: str) -> Iterator[str]:
    """The statements of a step; a trigger contains semicolons, so SQLite decides where a statement ends."""
    text = ""
    for piece in step.split(";")[:-1]:
        text += f"{piece};"
        if sqlite3.complete_statement(text):
            yield text.strip()
            text = ""


def _made_by_sqlite(kind: str, name: str) -> bool:
    """Whether SQLite itself made the object; it never makes triggers or views."""
    return kind in ("table", "index") and name.startswith(("sqlite_sequence", "sqlite_autoindex_"))
