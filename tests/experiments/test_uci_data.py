"""Data come from a folder with checksums or from OpenML; what is missing is said with the way out."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError

import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.experiments.runners import uci
from spu_core.experiments.runners.uci import (
    BANK,
    FileSet,
    Origin,
    data_folder,
    load_uci,
    read_adult,
    read_bank,
    tidy_adult,
    tidy_bank,
)

REAL = os.environ.get("SPU_DATA")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A data set of three rows whose file we have written ourselves."""
    frame = pd.DataFrame({"x": [1, 2, 3], "y": ["yes", "no", "yes"]})
    frame.to_parquet(tmp_path / "tiny.parquet")
    digest = sha256((tmp_path / "tiny.parquet").read_bytes()).hexdigest()
    form = FileSet((("tiny.parquet", digest),), lambda paths: pd.read_parquet(paths[0]))
    origin = Origin("Tiny", (form,), 99, lambda frame: frame, (3, 2), ("y", "yes", 2))
    monkeypatch.setitem(uci.ORIGINS, "tiny", origin)
    return frame


def test_a_file_with_the_known_checksum_is_read(tiny, tmp_path):
    found = load_uci("tiny", tmp_path)

    assert found.source == "tiny.parquet"
    pd.testing.assert_frame_equal(found.frame, tiny)


def test_a_file_with_another_checksum_is_refused(tiny, tmp_path):
    tiny.iloc[::-1].to_parquet(tmp_path / "tiny.parquet")

    with pytest.raises(TableError, match=r"tiny.parquet has the sha256 .*get the original file again"):
        load_uci("tiny", tmp_path)


def test_a_missing_file_says_what_to_put_where(tmp_path):
    with pytest.raises(TableError, match=r"put adult.parquet, or adult.data with adult.test there, or leave --data"):
        load_uci("adult", tmp_path)


def test_without_a_folder_openml_is_asked_by_number(tiny):
    asked = []
    found = load_uci("tiny", None, fetch=lambda number: asked.append(number) or tiny)

    assert asked == [99]
    assert found.source == "OpenML 99"


def test_without_network_the_sentence_names_both_ways_out():
    def offline(number):
        raise URLError("no network")

    with pytest.raises(TableError, match=r"Adult .* is not shipped .* OpenML .* 1590 .*adult.parquet .*--data or SPU"):
        load_uci("adult", None, fetch=offline)


def test_openml_content_of_another_size_is_refused(tiny):
    with pytest.raises(TableError, match=r"Tiny has 2 rows, 2 columns and 1 rows with y = yes, but 3, 2 and 2"):
        load_uci("tiny", None, fetch=lambda number: tiny.head(2))


def test_the_folder_is_the_given_one_then_the_environments(monkeypatch, tmp_path):
    monkeypatch.setenv("SPU_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    assert data_folder(tmp_path.parent) == tmp_path.parent
    monkeypatch.setenv("SPU_DATA", str(tmp_path / "no"))
    with pytest.raises(TableError, match=r"given by SPU_DATA, does not exist"):
        data_folder(None)
    with pytest.raises(TableError, match=r"given by --data, does not exist"):
        data_folder(tmp_path / "nowhere")
    monkeypatch.delenv("SPU_DATA")
    assert data_folder(None) is None


def test_an_unknown_data_set_names_the_nearest():
    with pytest.raises(TableError, match=r"There is no data set 'adlt'. Did you mean 'adult'"):
        load_uci("adlt", None)


def test_openml_spells_bank_and_adult_otherwise_and_is_understood():
    bank = pd.DataFrame({**{f"V{place}": [1] for place in range(1, 17)}, "Class": pd.Categorical(["2"])})
    adult = pd.DataFrame({"age": [30], "workclass": pd.Categorical([None], ["x"]), "class": pd.Categorical(["<=50K"])})

    assert tuple(tidy_bank(bank).columns) == BANK
    assert tidy_bank(bank)["y"].tolist() == ["yes"]
    assert tidy_adult(adult)["workclass"].tolist() == ["?"]
    assert tidy_adult(adult)["income"].tolist() == ["<=50K"]


def test_the_original_uci_files_are_read_as_published(tmp_path):
    line = "39, ?, 77516, Bachelors, 13, Never-married, Sales, Husband, White, Male, 0, 0, 40, Peru, "
    (tmp_path / "adult.data").write_text(f"{line}<=50K\n")
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{line}>50K.\n")
    (tmp_path / "bank-full.csv").write_text('"age";"job";"y"\n58;"management";"no"\n')

    adult = tidy_adult(read_adult([tmp_path / "adult.data", tmp_path / "adult.test"]))
    assert adult["income"].tolist() == ["<=50K", ">50K"]
    assert adult["workclass"].tolist() == ["?", "?"]
    assert read_bank([tmp_path / "bank-full.csv"])["job"].tolist() == ["management"]


@pytest.mark.parametrize("name", uci.ORIGINS)
def test_the_real_files_are_what_their_authors_published(name):
    if REAL is None:
        pytest.skip("the data are not shipped; set SPU_DATA to their folder")

    assert load_uci(name, Path(REAL)).frame.shape == uci.ORIGINS[name].shape
