"""The UCI tables of the experiments (from a folder, or from OpenML), and the trials on them.

The folder is given by `--data` or by the environment variable SPU_DATA. Files are the parquet copies or the original
UCI files; a file with another checksum is refused, since its results could not be compared. Files of OpenML are
checked by scikit-learn against OpenML's checksums, and here by their rows, columns and classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import SpuError, TableError, nearest_hint
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.metrics import auc_spu_score
from spu_core.models import METHODS, SoftLabelClassifier
from spu_core.rules import AnyOf, Compare, Ramp, Rule, RuleSet
from spu_core.tables import Table

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


Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, eq=False)
class Trial:
    """A table with a known class and rules about it; `train_share` of the rows (or groups) are for training."""

    title: str
    frame: pd.DataFrame
    truth: np.ndarray
    rules: RuleSet
    groups: np.ndarray | None = None
    train_share: float = 2 / 3

    def sample(self, rows: int, seed: int = 0) -> Trial:
        """About this many rows, picked at random; of whole groups, where there are groups."""
        if rows >= len(self.frame):
            return self
        codes, names = pd.factorize(np.arange(len(self.frame)) if self.groups is None else self.groups)
        count = round(rows / len(self.frame) * len(names))
        picked = np.isin(codes, np.random.default_rng([7, seed]).choice(len(names), count, replace=False))
        groups = None if self.groups is None else self.groups[picked]
        frame = self.frame[picked].reset_index(drop=True)
        return replace(self, frame=frame, truth=self.truth[picked], groups=groups)

    def with_codes(self) -> Trial:
        """The same table with categories written as numbers, in the order of their names."""
        texts = [name for name in self.frame if self.frame[name].dtype.kind not in "iufb"]
        codes = {str(name): self.frame[name].astype("category").cat.codes.astype(float) for name in texts}
        return replace(self, frame=self.frame.assign(**codes))


def make_trial(name: str, tables: Tables) -> Trial:
    """The trial of this name; `tables` holds the data sets by name."""
    if name not in TRIALS:
        raise SpuError(f"There is no trial {name!r}. {nearest_hint(name, TRIALS)}")
    return TRIALS[name](tables)


def adult(tables: Tables) -> Trial:
    """Income above 50K; a capital gain or loss gives a belief of ½."""
    frame = tables["adult"]
    invests = AnyOf((Compare("capital-gain", ">", 0), Compare("capital-loss", ">", 0)))
    truth = frame["income"].eq(">50K").to_numpy()
    return Trial("Adult", frame.drop(columns="income"), truth, RuleSet((Rule("Investor", 0.5, invests),)))


def breast_cancer(tables: Tables) -> Trial:
    """Malignant is positive (scikit-learn codes it 0); the mean of two ramps over the upper half of the ranks."""
    from sklearn.datasets import load_breast_cancer

    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    ramps = tuple(
        Rule(f"Large {column}", Ramp(column=column, start=0.5, end=1.0, at_end=0.5, scale="quantile"))
        for column in ("worst radius", "worst texture")
    )
    return Trial("Breast Cancer", frame, target.to_numpy() == 0, RuleSet(ramps, combine="mean_of_fired"))


def breast_cancer_few(tables: Tables) -> Trial:
    """The same with a fifth of the rows for training."""
    return replace(breast_cancer(tables), train_share=0.2)


DIAGNOSES = ("diag_1", "diag_2", "diag_3")
DRUGS = (
    "metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide", "glipizide",
    "glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol", "troglitazone", "tolazamide",
    "examide", "citoglipton", "insulin", "glyburide-metformin", "glipizide-metformin", "glimepiride-pioglitazone",
    "metformin-rosiglitazone", "metformin-pioglitazone", "change", "diabetesMed",
)  # fmt: skip
TWO_STAYS = RuleSet((Rule("Two stays or more", 0.3, Compare("number_inpatient", ">=", 2)),))
FOUR_COUNTS = RuleSet(
    tuple(
        Rule(f"Many {column}", 0.3, Compare(column, ">=", limit))
        for column, limit in (
            ("num_medications", 25),
            ("number_outpatient", 2),
            ("number_emergency", 2),
            ("number_inpatient", 2),
        )
    ),
    combine="strongest",
)


def diabetes_closest(tables: Tables) -> Trial:
    """Primary diagnosis 250.xx, without the diagnosis columns; two stays in hospital or more → 0.3."""
    frame = tables["diabetes130"]
    truth = frame["diag_1"].str.startswith("250").to_numpy(dtype=bool)
    return _diabetes("Diabetes (primary diagnosis, stays)", frame, truth, DIAGNOSES, TWO_STAYS)


def diabetes_diagnosis(tables: Tables) -> Trial:
    """The same target with the paper's four counts as rules."""
    closest = diabetes_closest(tables)
    return replace(closest, title="Diabetes (primary diagnosis, four counts)", rules=FOUR_COUNTS)


def diabetes_readmitted(tables: Tables) -> Trial:
    """The usual target of this table, readmission, with the paper's four counts as rules."""
    frame = tables["diabetes130"]
    truth = frame["readmitted"].ne("NO").to_numpy(dtype=bool)
    return _diabetes("Diabetes (readmitted, four counts)", frame, truth, ("readmitted",), FOUR_COUNTS)


def diabetes_medicated(tables: Tables) -> Trial:
    """Whether a drug against diabetes is given, without the drug columns, with the paper's four counts as rules."""
    frame = tables["diabetes130"]
    truth = frame["diabetesMed"].eq("Yes").to_numpy(dtype=bool)
    return _diabetes("Diabetes (medication, four counts)", frame, truth, DRUGS, FOUR_COUNTS)


def bank(tables: Tables) -> Trial:
    """Term deposit, without the call's duration, which is known only afterwards; earlier success → 0.6."""
    frame = tables["bank_full"]
    rules = RuleSet(
        (
            Rule("Earlier success", 0.6, Compare("poutcome", "=", "success")),
            Rule("Large balance", 0.2, Compare("balance", ">", 3000)),
        )
    )
    return Trial("Bank", frame.drop(columns=["y", "duration"]), frame["y"].eq("yes").to_numpy(dtype=bool), rules)


def _diabetes(title: str, frame: pd.DataFrame, truth: np.ndarray, dropped: tuple[str, ...], rules: RuleSet) -> Trial:
    features = frame.drop(columns=["encounter_id", "patient_nbr", *dropped])
    return Trial(title, features, truth, rules, groups=frame["patient_nbr"].to_numpy())


TRIALS: dict[str, Callable[[Tables], Trial]] = {
    "adult": adult,
    "bank": bank,
    "breast_cancer": breast_cancer,
    "breast_cancer_few": breast_cancer_few,
    "diabetes_closest": diabetes_closest,
    "diabetes_diagnosis": diabetes_diagnosis,
    "diabetes_medicated": diabetes_medicated,
    "diabetes_readmitted": diabetes_readmitted,
}


CHANCE = "labeling_chance"
LARGEST_CHANCE = 0.5


@dataclass(frozen=True, eq=False)
class Draw:
    """One random draw of a trial: split, labels and soft labels.

    `chance` is u, drawn for test rows as well; labels of test rows are never used."""

    trial: Trial
    train: np.ndarray
    chance: np.ndarray
    soft_labels: SoftLabels
    grouped: bool = False

    @property
    def groups(self) -> np.ndarray | None:
        """Groups of the training rows, for inner folds, where the split keeps groups together."""
        groups = self.trial.groups
        return groups[self.train] if self.grouped and groups is not None else None

    @property
    def test(self) -> np.ndarray:
        return ~self.train


@dataclass(frozen=True, eq=False)
class FittedDraw:
    """A fitted method with the columns that it was trained on."""

    draw: Draw
    model: SoftLabelClassifier
    frame: pd.DataFrame

    def score(self, frame: pd.DataFrame | None = None) -> np.ndarray:
        """Scores of the test rows; `frame` replaces what the model sees of them."""
        test = self.draw.test
        seen = self.frame[test] if frame is None else frame
        return self.model.predict_proba(seen, rule_score=self.draw.soft_labels.rule_score[test])[:, 1]

    def auc(self, frame: pd.DataFrame | None = None) -> float:
        """True AUC on the test rows: AUC_SPU with the truth as soft label."""
        truth = self.draw.trial.truth[self.draw.test].astype(np.float64)
        return auc_spu_score(truth, self.score(frame))


def draw_trial(trial: Trial, seed: int, *, grouped: bool = False) -> Draw:
    """Split at random (whole groups where `grouped`), draw u ~ U[0, ½] for every row, and label by it."""
    rng = np.random.default_rng([1, seed])
    train = _split(trial, rng, grouped)
    chance = rng.uniform(0.0, LARGEST_CHANCE, train.size)
    is_labeled = trial.truth & (rng.random(train.size) < chance)
    return replace(draw_with_labels(trial, train, is_labeled, chance), grouped=grouped)


def draw_with_labels(trial: Trial, train: np.ndarray, is_labeled: np.ndarray, chance: np.ndarray) -> Draw:
    """A draw with given labels; quantiles of ramps are fitted on the training rows."""
    seen = trial.frame[list(rule_columns(trial))]
    table = Table.from_frame(seen[train].assign(labeled=is_labeled[train].astype(int)), roles={"labeled": "label"})
    fitted = trial.rules.fit(table)
    soft_labels = assign_soft_labels(fitted.apply(seen), is_labeled, trial.rules.combine)
    return Draw(trial, train, chance, soft_labels)


def rule_columns(trial: Trial) -> tuple[str, ...]:
    """The columns that the rules read."""
    return tuple(dict.fromkeys(column for rule in trial.rules for column in rule.columns))


def fit_method(
    draw: Draw, method: str, settings: Mapping[str, Any] | None = None, *, chance_in_x: bool = False
) -> FittedDraw:
    """Train one method of the registry on the training rows; rule columns are kept or dropped as the method does."""
    given, train = dict(settings or {}), draw.train
    frame = draw.trial.frame.assign(**{CHANCE: draw.chance}) if chance_in_x else draw.trial.frame
    labels = draw.soft_labels
    model = SoftLabelClassifier(method, **given).fit(
        frame[train],
        labels.value[train],
        is_labeled=labels.is_labeled[train],
        rule_score=labels.rule_score[train],
        truth=draw.trial.truth[train],
        groups=draw.groups,
        rule_columns=rule_columns(draw.trial),
    )
    return FittedDraw(draw, model, frame)


def known_settings(method: str, learner: str | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted settings that the method has with this learner, and the learner itself."""
    names = {setting.name for setting in METHODS[method].settings(learner)}
    chosen = {"learner": learner} if learner is not None and "learner" in names else {}
    return {**chosen, **{name: value for name, value in wanted.items() if name in names}}


def _split(trial: Trial, rng: np.random.Generator, grouped: bool) -> np.ndarray:
    if not grouped or trial.groups is None:
        train = np.zeros(len(trial.frame), dtype=bool)
        train[rng.permutation(train.size)[: round(trial.train_share * train.size)]] = True
        return train
    codes, names = pd.factorize(trial.groups)
    picked = rng.permutation(len(names))[: round(trial.train_share * len(names))]
    return np.isin(codes, picked)
