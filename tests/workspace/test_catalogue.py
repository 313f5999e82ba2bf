"""Which databases are opened, and which are refused unchanged."""

import sqlite3
import subprocess
import sys
import threading

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import Workspace, check, schema
from tests.workspace.fakes import FakeTable


def everything_in(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def alter(folder, *statements):
    connection = sqlite3.connect(folder / "catalogue.sqlite", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def closed_workspace(folder):
    with Workspace.open(folder) as workspace:
        workspace.rule_sets.create("rules", "{}")
    return folder


def test_a_catalogue_keeps_our_settings(workspace):
    settings = {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "synchronous": 2,
        "trusted_schema": 0,
        "application_id": schema.APPLICATION_ID,
        "user_version": schema.known_version(),
    }

    assert {name: workspace.catalogue.row(f"PRAGMA {name}")[0] for name in settings} == settings


def test_a_newer_workspace_is_refused_and_not_one_byte_is_changed(tmp_path):
    folder = closed_workspace(tmp_path)
    alter(folder, "PRAGMA user_version = 99")
    before = everything_in(folder)

    with pytest.raises(
        WorkspaceError, match=r"has schema version 99, this program supports up to .; nothing was changed"
    ):
        Workspace.open(folder)
    with pytest.raises(WorkspaceError, match="Update SPU Studio"):
        check(folder, repair=True)

    assert everything_in(folder) == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER steal AFTER INSERT ON datasets BEGIN DELETE FROM datasets; END",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TABLE more (id)",
        "DROP TABLE outcomes",
        "ALTER TABLE jobs ADD COLUMN more TEXT",
        "DROP INDEX one_copy_per_address",
    ],
)
def test_a_catalogue_with_other_tables_or_triggers_is_refused(tmp_path, statement):
    folder = closed_workspace(tmp_path)
    alter(folder, statement)

    with pytest.raises(WorkspaceError, match="was not made by SPU Studio"):
        Workspace.open(folder)


def test_a_foreign_database_is_refused_and_stays_as_it_is(tmp_path):
    alter(tmp_path, "CREATE TABLE songs (title TEXT)", "INSERT INTO songs VALUES ('x')")
    before = (tmp_path / "catalogue.sqlite").read_bytes()

    with pytest.raises(WorkspaceError, match="its application id is not ours"):
        Workspace.open(tmp_path)

    assert (tmp_path / "catalogue.sqlite").read_bytes() == before


def test_a_file_that_is_no_database_is_called_damaged(tmp_path):
    (tmp_path / "catalogue.sqlite").write_bytes(b"<html>log in</html>" * 100)

    with pytest.raises(WorkspaceError, match=r"damaged .*not a database.* `spu workspace check --restore`"):
        Workspace.open(tmp_path)


def test_a_missing_catalogue_beside_stored_files_is_no_fresh_start(tmp_path):
    with Workspace.open(tmp_path) as workspace:
        workspace.datasets.save(FakeTable())
    (tmp_path / "catalogue.sqlite").unlink()

    with pytest.raises(WorkspaceError, match="contains stored files, but its catalogue is missing"):
        Workspace.open(tmp_path)


def test_an_old_catalogue_is_brought_up_to_date_once_and_keeps_its_rows(tmp_path, monkeypatch):
    folder = closed_workspace(tmp_path)
    version = schema.known_version()
    later = (*schema.MIGRATIONS, "CREATE TABLE notes (id TEXT PRIMARY KEY) STRICT;")
    monkeypatch.setattr(schema, "MIGRATIONS", later)

    for _ in range(2):
        with Workspace.open(folder) as workspace:
            assert workspace.catalogue.row("PRAGMA user_version")[0] == version + 1
            assert workspace.catalogue.rows("SELECT * FROM notes") == []
            assert [rules.name for rules in workspace.rule_sets.list()] == ["rules"]


def test_a_migration_that_fails_leaves_the_old_version_whole(tmp_path, monkeypatch):
    folder = closed_workspace(tmp_path)
    broken = (*schema.MIGRATIONS, "CREATE TABLE notes (id TEXT) STRICT; CREATE TABLE notes (id TEXT) STRICT;")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(WorkspaceError, match="could not be used"):
            Workspace.open(folder)

    with Workspace.open(folder) as workspace:
        assert workspace.catalogue.row("PRAGMA user_version")[0] == schema.known_version()
        assert len(workspace.rule_sets.list()) == 1


def test_many_threads_may_open_and_create_one_workspace_at_once(tmp_path):
    ids = []

    def open_it():
        with Workspace.open(tmp_path) as workspace:
            ids.append(workspace.id)

    threads = [threading.Thread(target=open_it) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(ids) == 12
    assert len(set(ids)) == 1


def test_a_fork_does_not_use_the_connection_that_it_inherits(tmp_path):
    from tests.workspace.scenario import in_a_process

    with Workspace.open(tmp_path) as workspace:

        def use_it(say):
            try:
                workspace.rule_sets.list()
            except WorkspaceError as error:
                say(str(error))

        assert "was opened by the process that forked this one" in in_a_process(use_it)[0]


OTHER_PROCESS = """
import sys
from spu_core.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    print(workspace.rule_sets.create("from the other process", "{}").id)
"""


def test_looking_at_a_catalogue_never_drops_the_locks_of_a_connection_in_this_process(tmp_path):
    """Closing a plain descriptor of a SQLite file frees its locks; then two processes both think to be alone.

    A new interpreter and no fork, which would inherit what SQLite remembers of our locks.
    """
    with Workspace.open(tmp_path) as workspace:
        workspace.rule_sets.create("before", "{}")
        check(tmp_path)
        Workspace.join(workspace.home, ".").close()

        command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        workspace.rule_sets.create("after", "{}")

        assert said in {rules.id for rules in workspace.rule_sets.list()}
    with Workspace.open(tmp_path) as workspace:
        assert len(workspace.rule_sets.list()) == 3
