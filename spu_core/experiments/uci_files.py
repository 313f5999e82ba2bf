"""How the files of Adult, Diabetes and Bank are read, and brought to the column names that their authors use."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

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
