"""Folders of the server as datasets: only below roots that the operator allows, found again, noticed when changed."""

import os
import shutil
from pathlib import Path

import pytest

from spu_core.engines import Job, run_in_process
from spu_core.errors import SpuError, WorkspaceError
from spu_core.tables import read_table
from spu_core.workspace import Home, Workspace
from spu_core.workspace.home import VARIABLE, FolderRoots
from tests.tables.folders import mixed_frame, write_folder

# A name that another system wrote as Latin-1.
NO_TEXT = os.fsdecode("résumé".encode("latin-1"))


@pytest.fixture
def root(tmp_path, monkeypatch):
    folder = tmp_path / "tables"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@pytest.fixture
def roots(root, tmp_path):
    return FolderRoots.allowed(Home.at(tmp_path / "spu_home"))


def register(workspace, path):
    job = run_in_process(workspace, Job(kind="register", parameters={"folder": str(path)}, title="rows"))
    return workspace.datasets.get(job.result["dataset"])


def test_without_the_variable_nothing_is_offered_and_nothing_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = write_folder(mixed_frame(20), tmp_path / "rows", [])
    none = FolderRoots.allowed(Home.at(tmp_path / "spu_home"))

    assert none.offers() == ()
    with pytest.raises(WorkspaceError, match="this server allows"):
        none.find(folder)


def test_folders_with_parquet_files_are_offered_and_partitions_belong_to_the_folder_above(root, roots):
    write_folder(mixed_frame(20), root / "sales", [])
    for month in ("1", "2"):
        write_folder(mixed_frame(20), root / "visits" / "year=2024" / f"month={month}", [])
    write_folder(mixed_frame(20), root / "deep" / "er", [])
    write_folder(mixed_frame(20), root / ".hidden", [])
    (root / "texts").mkdir()
    (root / "texts" / "notes.CSV").write_text("a,b\n1,2\n")
    (root / "texts" / "notes.pdf").write_text("a,b\n1,2\n")

    words = [offer.text for offer in roots.offers()]

    assert words == ["tables/deep/er", "tables/sales", "tables/texts/notes.CSV", "tables/visits"]


def test_roots_that_cannot_be_entered_or_do_not_exist_offer_nothing(root, tmp_path, monkeypatch):
    write_folder(mixed_frame(20), root / "rows", [])
    (root / "closed").mkdir()
    (root / "closed" / "rows.csv").write_text("a,b\n1,2\n")
    closed = tmp_path / "closed_root"
    monkeypatch.setenv(VARIABLE, os.pathsep.join([str(closed), "~nobody-of-this-name/tables", str(root)]))
    refuse_to_enter(monkeypatch, closed, root / "closed" / "rows.csv")

    roots = FolderRoots.allowed(Home.at(tmp_path / "spu_home"))

    assert [offer.text for offer in roots.offers()] == ["tables/rows"]
    with pytest.raises(WorkspaceError, match="this server allows"):
        roots.find(root / "closed" / "rows.csv")


def refuse_to_enter(monkeypatch, *closed):
    """Behave as for a user without rights, even for the superuser who runs tests in a container."""
    look = os.stat

    def stat(path, *args, **options):
        if not isinstance(path, int) and Path(os.fsdecode(path)) in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, *args, **options)

    monkeypatch.setattr(os, "stat", stat)


def test_names_that_are_no_text_are_not_offered_and_hide_no_others(root, roots):
    write_folder(mixed_frame(20), root / "sales\u30002024", [])
    write_folder(mixed_frame(20), root / "other", []).rename(root / NO_TEXT)
    (root / f"{NO_TEXT}.csv").write_text("a,b\n1,2\n")

    assert [offer.text for offer in roots.offers()] == ["tables/sales\u30002024"]


def test_a_file_whose_name_is_no_text_is_refused_in_words(root):
    write_folder(mixed_frame(40), root / "rows", [20])
    (root / "rows" / "part-001.parquet").rename(root / "rows" / f"{NO_TEXT}.parquet")

    with Workspace.open() as workspace, pytest.raises(SpuError, match="has a name that is not UTF-8; rename it"):
        register(workspace, root / "rows")


def test_roots_of_one_name_are_told_apart(tmp_path, monkeypatch):
    given = [tmp_path / place for place in ("a/tables", "b/tables", "tables (2)")]
    for root in given:
        write_folder(mixed_frame(20), root / "rows", [])
    monkeypatch.setenv(VARIABLE, os.pathsep.join(map(str, given)))
    roots = FolderRoots.allowed(Home.at(tmp_path / "spu_home"))

    offers = {offer.text: offer for offer in roots.offers()}

    assert list(offers) == ["tables/rows", "tables (2)/rows", "tables (2) (2)/rows"]
    assert [offer.path for offer in offers.values()] == [root / "rows" for root in given]
    assert [roots.find(root / "rows") for root in given] == list(offers.values())


@pytest.mark.parametrize("name", ["..", "../outside", "/etc", "rows/../../outside", "", "rows\x00", "~"])
def test_a_name_never_leads_out_of_the_roots(root, roots, tmp_path, name):
    write_folder(mixed_frame(20), root / "rows", [])
    write_folder(mixed_frame(20), tmp_path / "outside", [])

    with pytest.raises(WorkspaceError, match="this server allows"):
        roots.find(name if name.startswith(("/", "~")) or not name else str(root / name))


def test_a_link_to_a_folder_outside_is_neither_offered_nor_found(root, roots, tmp_path):
    write_folder(mixed_frame(20), tmp_path / "outside", [])
    (root / "link").symlink_to(tmp_path / "outside")

    assert roots.offers() == ()
    with pytest.raises(WorkspaceError, match="this server allows"):
        roots.find(root / "link")


def test_a_link_to_a_file_outside_refuses_the_folder_before_it_is_read(root, tmp_path):
    secret = write_folder(mixed_frame(20), tmp_path / "outside", []) / "part-000.parquet"
    write_folder(mixed_frame(20), root / "rows", [])
    (root / "rows" / "more.parquet").symlink_to(secret)

    with Workspace.open() as workspace, pytest.raises(WorkspaceError, match=r"'more.parquet' .* leads elsewhere"):
        register(workspace, root / "rows")


def test_a_link_that_comes_later_refuses_the_registered_folder(root, tmp_path):
    secret = write_folder(mixed_frame(20, seed=1), tmp_path / "outside", []) / "part-000.parquet"
    write_folder(mixed_frame(20), root / "rows", [])
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "rows")
        (root / "rows" / "part-000.parquet").unlink()
        (root / "rows" / "part-000.parquet").symlink_to(secret)

        with pytest.raises(WorkspaceError, match="leads elsewhere"):
            workspace.datasets.open(dataset.id)


def test_a_root_that_would_show_workspaces_is_refused(tmp_path, monkeypatch):
    home = Home.at(tmp_path / "spu_home")
    for shown in (tmp_path, tmp_path / "spu_home", tmp_path / "spu_home" / "users"):
        monkeypatch.setenv(VARIABLE, str(shown))
        with pytest.raises(WorkspaceError, match="would show the workspaces") as error:
            FolderRoots.allowed(home)
        assert str(tmp_path) not in str(error.value)


def test_a_registered_folder_is_a_dataset_with_a_sample_and_all_rows(root, monkeypatch):
    monkeypatch.setattr("spu_core.engines.jobs.read.SAMPLE_ROWS", 50)
    write_folder(mixed_frame(300), root / "rows", [100])
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "rows")
        sample, whole = workspace.datasets.explore(dataset.id), workspace.datasets.open(dataset.id)

        assert (dataset.name, dataset.n_rows, dataset.n_columns) == ("rows", 300, 10)
        assert dataset.fingerprint == whole.fingerprint == whole.read().fingerprint
        assert sample.in_memory
        assert (len(sample), len(whole)) == (50, 300)
        with pytest.raises(WorkspaceError, match="The 300 rows of 'rows' stay in a folder"):
            workspace.datasets.load(dataset.id)


def test_roles_are_kept_for_the_sample_and_for_all_rows(root):
    write_folder(mixed_frame(300), root / "rows", [100])
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "rows")
        workspace.datasets.save_roles(workspace.datasets.open(dataset.id).with_roles({"x": "ignore"}), dataset)

        for table in (workspace.datasets.explore(dataset.id), workspace.datasets.open(dataset.id)):
            assert table.columns_with("ignore") == ("x",)


def test_a_folder_that_changed_is_refused_until_it_is_registered_again(root):
    write_folder(mixed_frame(300), root / "rows", [100])
    with Workspace.open() as workspace:
        before = register(workspace, root / "rows")
        write_folder(mixed_frame(300, seed=1), root / "rows", [100])

        with pytest.raises(WorkspaceError, match=r"has changed on disk .*'part-000.parquet' and 1 more"):
            workspace.datasets.open(before.id)
        after = register(workspace, root / "rows")
        assert after.id != before.id
        assert workspace.datasets.open(after.id).fingerprint == after.fingerprint != before.fingerprint


def test_the_same_rows_written_again_are_the_same_dataset(root):
    write_folder(mixed_frame(300), root / "rows", [100])
    with Workspace.open() as workspace:
        before = register(workspace, root / "rows")
        os.utime(root / "rows" / "part-000.parquet", ns=(1, 1))
        after = register(workspace, root / "rows")

        assert (after.id, after.version) == (before.id, before.version + 1)
        assert len(workspace.datasets.open(after.id)) == 300


def test_a_root_that_is_no_longer_allowed_closes_its_folders(root, tmp_path, monkeypatch):
    write_folder(mixed_frame(300), root / "rows", [100])
    (tmp_path / "other").mkdir()
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "rows")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "other"))

        with pytest.raises(WorkspaceError, match="is not among the folders and files that this server allows"):
            workspace.datasets.open(dataset.id)


def test_deleting_the_dataset_leaves_the_folder_alone(root):
    write_folder(mixed_frame(300), root / "rows", [100])
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "rows")
        workspace.delete(workspace.plan_deletion("dataset", dataset.id))

        assert workspace.datasets.list() == ()
        assert workspace.catalogue.rows("SELECT * FROM folders") == []
    assert len(list((root / "rows").iterdir())) == 2


def test_a_registration_belongs_to_the_person_who_made_it(root, tmp_path):
    write_folder(mixed_frame(300), root / "rows", [100])
    home = Home.at(tmp_path / "spu_home")
    with Workspace.open_for("issuer", "ann", home) as ann, Workspace.open_for("issuer", "bob", home) as bob:
        dataset = register(ann, root / "rows")

        assert bob.datasets.list() == ()
        with pytest.raises(WorkspaceError, match="has no dataset"):
            bob.datasets.folder(dataset.id)


MESSY = "name;amount;fraud\n" + "Ann;1,5;1\nBob;2,5;0\n" * 60 + "too;few\n"


def test_a_text_file_is_converted_once_and_goes_with_its_dataset(root):
    (root / "sales.csv").write_text(MESSY)
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "sales.csv")
        folder, sample = workspace.datasets.open(dataset.id), workspace.datasets.explore(dataset.id)

        assert (dataset.name, dataset.n_rows) == ("sales.csv", 120)
        assert folder.read().frame["amount"].tolist()[:2] == [1.5, 2.5]
        assert folder.store.path.is_relative_to(workspace.folder)
        assert sample.reading.rejected_rows == 1
        (root / "sales.csv").unlink()
        assert len(workspace.datasets.open(dataset.id)) == 120

        workspace.delete(workspace.plan_deletion("dataset", dataset.id))
        assert not folder.store.path.exists()


def test_a_workspace_copied_without_times_keeps_its_converted_folders(root, tmp_path):
    (root / "sales.csv").write_text(MESSY)
    with Workspace.open() as workspace:
        dataset = register(workspace, root / "sales.csv")
        shutil.copytree(workspace.folder, tmp_path / "copy", copy_function=shutil.copyfile)
    with Workspace.open(tmp_path / "copy") as copied:
        folder = copied.datasets.open(dataset.id)

        assert len(folder.read()) == 120
        (folder.store.path / "part-00000.parquet").write_bytes(b"cut")
        with pytest.raises(WorkspaceError, match="has changed on disk"):
            copied.datasets.open(dataset.id)


def test_a_table_that_was_brought_stays_as_it_is_when_the_same_file_is_registered(root):
    (root / "sales.csv").write_text(MESSY)
    with Workspace.open() as workspace:
        brought = workspace.datasets.save(read_table(root / "sales.csv"), "sales.csv")

        assert register(workspace, root / "sales.csv") == brought
        assert len(workspace.datasets.load(brought.id)) == 120
        assert workspace.catalogue.row("SELECT count(*) AS files FROM files")["files"] == 1


def test_bringing_the_file_of_a_registered_folder_brings_its_rows_into_the_workspace(root, monkeypatch):
    monkeypatch.setattr("spu_core.engines.jobs.read.SAMPLE_ROWS", 50)
    (root / "sales.csv").write_text(MESSY)
    with Workspace.open() as workspace:
        registered = register(workspace, root / "sales.csv")
        brought = workspace.datasets.save(read_table(root / "sales.csv"), "sales.csv")

        assert (brought.id, brought.version, brought.folder) == (registered.id, registered.version + 1, None)
        assert len(workspace.datasets.load(brought.id)) == len(workspace.datasets.explore(brought.id)) == 120
        assert workspace.datasets.save(read_table(root / "sales.csv"), "sales.csv") == brought


def test_a_text_file_behind_a_link_is_neither_offered_nor_converted(root, roots, tmp_path):
    (tmp_path / "secret.csv").write_text(MESSY)
    (root / "link.csv").symlink_to(tmp_path / "secret.csv")

    assert roots.offers() == ()
    with Workspace.open() as workspace, pytest.raises(WorkspaceError, match="this server allows"):
        register(workspace, root / "link.csv")


def test_a_file_that_is_no_table_leaves_nothing_behind(root):
    (root / "page.csv").write_text("<!DOCTYPE html><html><body>Log in</body></html>")
    with Workspace.open() as workspace:
        with pytest.raises(SpuError, match="HTML"):
            register(workspace, root / "page.csv")

        assert workspace.datasets.list() == ()
        assert list(workspace.converted.folder.iterdir()) == []


def test_what_a_cut_conversion_left_is_removed_at_the_next_start(root):
    with Workspace.open() as workspace:
        (workspace.converted.new()).mkdir()
        (workspace.converted.folder / ".0123.writing").mkdir()
    with Workspace.open() as workspace:
        assert list(workspace.converted.folder.iterdir()) == []


def test_a_converted_folder_stays_while_a_job_may_read_it(root):
    (root / "sales.csv").write_text(MESSY)
    with Workspace.open() as workspace:
        read_by_a_job = workspace.datasets.open(register(workspace, root / "sales.csv").id)
        workspace.jobs.add("a training", "train", "rows", {}, {})
        training = workspace.jobs.begin("a training")
        register(workspace, root / "sales.csv")
    with Workspace.open() as workspace:
        assert len(read_by_a_job.read()) == 120
        workspace.jobs.finish(training, {})
    with Workspace.open():
        assert not read_by_a_job.store.path.exists()


@pytest.mark.parametrize("place", ["converted/../files", "converted/x", "../converted/" + "a" * 24])
def test_a_place_in_the_catalogue_cannot_lead_out_of_the_workspace(root, place):
    with Workspace.open() as workspace:
        assert workspace.converted.path_of(place) is None
