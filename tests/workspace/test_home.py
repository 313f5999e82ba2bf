"""Where workspaces live, and that no name of anybody becomes a path."""

import pytest

from spu_core.errors import WorkspaceError
from spu_core.workspace import Home, Workspace, user_hash
from tests.workspace.fakes import FakeTable

HOSTILE = [
    "../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "x" * 5000,
    "CON",
    "..",
    "",
    "line\nbreak",
    "\ud800",
    "<script>alert(1)</script>",
    "name'; DROP TABLE datasets; --",
    "\u202etxt.exe",
]


def test_spu_home_chooses_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "chosen"))

    with Workspace.open() as workspace:
        assert workspace.folder == tmp_path / "chosen"
        assert workspace.place == "."


def test_without_spu_home_it_is_the_data_directory_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("SPU_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert Home.default().folder.name == "spu-studio"


def test_each_person_has_a_workspace_of_their_own_in_one_home(tmp_path):
    home = Home.at(tmp_path)
    with (
        Workspace.open_for("https://login", "ann", home) as ann,
        Workspace.open_for("https://login", "bob", home) as bob,
    ):
        saved = ann.datasets.save(FakeTable(b"secret of ann", "same name"))
        bob.datasets.save(FakeTable(b"secret of bob", "same name"))

        assert ann.folder.parent == bob.folder.parent == tmp_path / "users"
        assert [item.id for item in ann.datasets.list()] == [saved.id]
        for read in (bob.datasets.get, bob.datasets.path, lambda token: bob.plan_deletion("dataset", token)):
            with pytest.raises(WorkspaceError, match="This workspace has no dataset"):
                read(saved.id)


def test_the_same_subject_at_two_issuers_is_two_people():
    assert user_hash("https://a", "ann") != user_hash("https://b", "ann")
    with pytest.raises(WorkspaceError, match="needs both an issuer and a subject"):
        user_hash("https://a", "")


@pytest.mark.parametrize("place", ["..", "users/../..", "users/ann", "/etc", "users/" + "g" * 64])
def test_a_place_on_a_ticket_is_this_home_or_a_hash(tmp_path, place):
    with pytest.raises(WorkspaceError, match="is not a workspace of this home"):
        Home.at(tmp_path).folder_at(place)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_kept_as_text_and_leaves_no_file_of_that_name(tmp_path, name):
    with Workspace.open(tmp_path / "inside") as workspace:
        dataset = workspace.datasets.save(FakeTable(name=name))
        workspace.rule_sets.create(name, "{}")

        assert workspace.datasets.get(dataset.id).name.isprintable()
        assert 1 <= len(dataset.name) <= 200
        assert [path.stem for path in workspace.files.folder.iterdir()] == [dataset.file]
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]


@pytest.mark.parametrize("token", [*HOSTILE, "' OR 1=1 --", 7, None])
def test_a_hostile_id_is_only_ever_unknown(workspace, token):
    for kind, read in (
        ("dataset", workspace.datasets.get),
        ("run", workspace.runs.path),
        ("job", workspace.jobs.log),
        ("rule set", workspace.rule_sets.get),
        ("export", workspace.exports.path),
    ):
        with pytest.raises(WorkspaceError, match=f"This workspace has no {kind}"):
            read(token)


def test_others_on_this_machine_cannot_read_a_workspace(workspace):
    assert workspace.folder.stat().st_mode & 0o077 == 0
