"""The UCI tables of the experiments: from a folder of files with known checksums, or from OpenML.

The folder is given by `--data` or by the environment variable SPU_DATA. Files are the parquet copies or the original
UCI files; a file with another checksum is refused, since its results could not be compared. Files of OpenML are
checked by scikit-learn against OpenML's checksums, and here by their rows, columns and classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from spu_core.errors import TableError, nearest_hint

ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
BANK = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact", "day", "month",
    "duration", "campaign", "pdays", "previous", "poutcome", "y",
)  # fmt: skip


def read_parquet(paths: list[Path]) -> pd.DataFrame:
    """The one parquet file."""
    return pd.read_parquet(paths[0])


def read_adult(paths: list[Path]) -> pd.DataFrame:
    """adult.data and adult.test, whose first line is a remark."""
    parts = [
        pd.read_csv(path, names=list(ADULT), skipinitialspace=True, skiprows=skip, keep_default_na=False)
        for path, skip in zip(paths, (0, 1), strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def read_diabetes(paths: list[Path]) -> pd.DataFrame:
    """diabetic_data.csv; its text `None` means not measured and stays text."""
    return pd.read_csv(paths[0], keep_default_na=False, low_memory=False)


def read_bank(paths: list[Path]) -> pd.DataFrame:
    """bank-full.csv, separated by semicolons."""
    return pd.read_csv(paths[0], sep=";", keep_default_na=False)


def tidy_adult(frame: pd.DataFrame) -> pd.DataFrame:
    """The authors' column names, `?` for unknown, and classes without the final dot of the test file."""
    frame = _plain(frame.rename(columns={"class": "income"}).drop(columns="split", errors="ignore"))
    return frame.assign(income=frame["income"].str.rstrip("."))


def tidy_diabetes(frame: pd.DataFrame) -> pd.DataFrame:
    """The table as published, `?` for unknown."""
    return _plain(frame)


def tidy_bank(frame: pd.DataFrame) -> pd.DataFrame:
    """The authors' column names; OpenML calls columns V1 to V16 and the classes 1 (no) and 2 (yes)."""
    if "V1" in frame.columns:
        names = {f"V{place}": name for place, name in enumerate(BANK[:-1], start=1)}
        frame = frame.rename(columns={**names, "Class": "y"})
        frame = frame.assign(y=frame["y"].astype("str").map({"1": "no", "2": "yes"}))
    return _plain(frame)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Categories as text, with unknown values written `?` as in the files."""
    texts = {
        str(name): column.astype("object").fillna("?").astype("str")
        for name, column in frame.items()
        if column.dtype.kind not in "iufb"
    }
    return frame.assign(**texts)


Reader = Callable[[list[Path]], pd.DataFrame]
Fetch = Callable[[int], pd.DataFrame]


@dataclass(frozen=True, eq=False)
class DataSet:
    """A table as its authors published it; `source` describes where it was read from."""

    name: str
    frame: pd.DataFrame
    source: str


@dataclass(frozen=True)
class FileSet:
    """The files of a data set in one format, with their sha256, and the function that reads them."""

    files: tuple[tuple[str, str], ...]
    read: Reader


@dataclass(frozen=True)
class Origin:
    """Where a data set comes from, and what it must look like: rows, columns, and `positives` in the class column."""

    title: str
    forms: tuple[FileSet, ...]
    openml: int
    tidy: Callable[[pd.DataFrame], pd.DataFrame]
    shape: tuple[int, int]
    positives: tuple[str, str, int]


def data_folder(given: Path | None = None) -> Path | None:
    """The folder that was given, or the one that SPU_DATA names; None where neither is set."""
    named = given if given is not None else os.environ.get("SPU_DATA") or None
    if named is None:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        option = "--data" if given is not None else "SPU_DATA"
        raise TableError(f"The data folder {str(named)!r}, given by {option}, does not exist; name an existing folder.")
    return folder


def load_uci(name: str, folder: Path | None, *, fetch: Fetch | None = None) -> DataSet:
    """The data set of this name, from a folder or, without one, from OpenML (`fetch` takes OpenML's number)."""
    if name not in ORIGINS:
        raise TableError(f"There is no data set {name!r}. {nearest_hint(name, ORIGINS)}")
    return _from_folder(name, folder) if folder is not None else _from_openml(name, fetch or fetch_openml_frame)


def _from_folder(name: str, folder: Path) -> DataSet:
    origin = ORIGINS[name]
    for form in origin.forms:
        paths = [folder / file for file, _ in form.files]
        if all(path.is_file() for path in paths):
            for path, (_, digest) in zip(paths, form.files, strict=True):
                check_digest(path, digest)
            return DataSet(name, _checked(form.read(paths), name), " and ".join(path.name for path in paths))
    wanted = ", or ".join(" with ".join(file for file, _ in form.files) for form in origin.forms)
    raise TableError(
        f"{origin.title} was not found in the data folder {folder.name!r}: put {wanted} there, "
        "or leave --data and SPU_DATA out to fetch it from OpenML."
    )


def _from_openml(name: str, fetch: Fetch) -> DataSet:
    origin = ORIGINS[name]
    try:
        frame = fetch(origin.openml)
    # scikit-learn does not wrap network, archive and checksum errors.
    except (OSError, ValueError) as problem:
        raise TableError(
            f"{origin.title} is not shipped with this program, and OpenML could not be asked for data set "
            f"{origin.openml} ({type(problem).__name__}: {problem}). Connect to the internet, or put "
            f"{origin.forms[0].files[0][0]} into a folder and name it by --data or SPU_DATA."
        ) from None
    return DataSet(name, _checked(origin.tidy(frame), name), f"OpenML {origin.openml}")


def fetch_openml_frame(number: int) -> pd.DataFrame:
    """The data set of this number with its class column; scikit-learn caches it and checks OpenML's checksum."""
    from sklearn.datasets import fetch_openml

    found: Any = fetch_openml(data_id=number, as_frame=True, parser="auto")
    return found.frame


def check_digest(path: Path, digest: str) -> None:
    """Refuse a file that differs from the one that the stored results were made with."""
    found = sha256(path.read_bytes()).hexdigest()
    if found != digest:
        raise TableError(
            f"{path.name} has the sha256 {found[:12]}…, but the figures were made with {digest[:12]}…; "
            "get the original file again."
        )


def _checked(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows, columns and positives as published."""
    origin = ORIGINS[name]
    column, value, count = origin.positives
    found = int(frame[column].eq(value).sum()) if column in frame else None
    if frame.shape != origin.shape or found != count:
        raise TableError(
            f"{origin.title} has {frame.shape[0]:,} rows, {frame.shape[1]} columns and {found} rows with {column} = "
            f"{value}, but {origin.shape[0]:,}, {origin.shape[1]} and {count:,} were published; get the original file."
        )
    return frame


ORIGINS: dict[str, Origin] = {
    "adult": Origin(
        title="Adult (census income)",
        forms=(
            FileSet(
                (("adult.parquet", "0196b7b4f169551f39f6f78ae8e3d0f8ca1cb47b614b8fba1e181a69e7bbd6be"),),
                lambda paths: tidy_adult(read_parquet(paths)),
            ),
            FileSet(
                (
                    ("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
                    ("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
                ),
                lambda paths: tidy_adult(read_adult(paths)),
            ),
        ),
        openml=1590,
        tidy=tidy_adult,
        shape=(48_842, 15),
        positives=("income", ">50K", 11_687),
    ),
    "diabetes130": Origin(
        title="Diabetes 130-US hospitals",
        forms=(
            FileSet(
                (("diabetes130.parquet", "40593d6f4fbd687c5e138a8eb44f646c2494622e419e75be2cc5d7fb18662a52"),),
                lambda paths: tidy_diabetes(read_parquet(paths)),
            ),
            FileSet(
                (("diabetic_data.csv", "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97"),),
                lambda paths: tidy_diabetes(read_diabetes(paths)),
            ),
        ),
        openml=4541,
        tidy=tidy_diabetes,
        shape=(101_766, 50),
        positives=("readmitted", "<30", 11_357),
    ),
    "bank_full": Origin(
        title="Bank marketing",
        forms=(
            FileSet(
                (("bank_full.parquet", "536a643b78ef98f2c7c95286a0d85c45fce6a2b223d6fde9996b054eb1c57827"),),
                lambda paths: tidy_bank(read_parquet(paths)),
            ),
            FileSet(
                (("bank-full.csv", "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d"),),
                lambda paths: tidy_bank(read_bank(paths)),
            ),
        ),
        openml=1461,
        tidy=tidy_bank,
        shape=(45_211, 17),
        positives=("y", "yes", 5_289),
    ),
}
