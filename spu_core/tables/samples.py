"""Sample tables of the package: small tables to try every step.

The files are in `sample_data/`; `write_samples` makes identical files from the simulators. The truth of each sample is
known, but kept in a file of its own: a sample starts like real data, and the truth can be revealed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.roles import Role
from spu_core.tables.simulators import (
    simulate_ads,
    simulate_anti_cheat,
    simulate_breast_cancer,
    simulate_medical,
)
from spu_core.tables.simulators.anti_cheat import ANTI_CHEAT_ROLES
from spu_core.tables.simulators.scenarios import ADS_ROLES, BREAST_CANCER_ROLES, MEDICAL_ROLES
from spu_core.tables.table import Table, fingerprint
from spu_core.tables.table_reader import read_table


@dataclass(frozen=True)
class Sample:
    """One sample: its description, the roles of its columns, and how its files are made."""

    name: str
    title: str
    description: str
    roles: Mapping[str, Role]
    make: Callable[[], Mapping[str, pd.DataFrame]]
    positive_values: tuple[int, ...] = (1,)

    @property
    def file(self) -> str:
        """Name of the table's file in the sample folder."""
        return f"{self.name}.csv"

    @property
    def truth(self) -> str:
        """Name of the column with the truth."""
        return next(column for column, role in self.roles.items() if role is Role.TRUTH)

    @property
    def truth_file(self) -> str:
        """Name of the file with the truth of each row."""
        return f"{self.name}.truth.csv"

    @property
    def rules_file(self) -> str:
        """Name of the file with a rule set that suits the sample."""
        return f"{self.name}.rules.json"


def sample_names() -> tuple[str, ...]:
    """Names of the samples that this package ships.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> "breast_cancer" in sample_names()
    True
    """
    return tuple(SAMPLES)


def load_sample(name: str, *, truth: bool = False) -> Table:
    """A sample as a table, with its roles set.

    Parameters
    ----------
    name : str
        One of `sample_names()`.
    truth : bool, default False
        Add the column with the truth, which is used for evaluation only. Real data seldom has one.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        If there is no sample of this name.

    Examples
    --------
    >>> table = load_sample("breast_cancer")
    >>> len(table), table.column_with("truth")
    (569, None)
    >>> load_sample("breast_cancer", truth=True).column_with("truth")
    'malignant'
    """
    sample = _sample(name)
    table = read_table(_path(sample.file), name=name)
    if truth:
        known = sample_truth(name).astype(np.int64)
        table = Table.from_frame(table.frame.assign(**{sample.truth: known}), name=name)
    roles = {column: sample.roles.get(column, Role.FEATURE) for column in table.frame.columns}
    return table.with_roles(roles).with_positive_values(*sample.positive_values)


def sample_truth(name: str) -> np.ndarray:
    """The true class of each row of a sample, to check a recommendation afterwards.

    Parameters
    ----------
    name : str
        One of `sample_names()`.

    Returns
    -------
    ndarray of bool

    Examples
    --------
    >>> int(sample_truth("breast_cancer").sum())
    212
    """
    sample = _sample(name)
    return pd.read_csv(_path(sample.truth_file))[sample.truth].to_numpy() == 1


def sample_of(table: Table) -> str | None:
    """The name of the sample whose rows these are; None for any other table.

    >>> sample_of(load_sample("breast_cancer"))
    'breast_cancer'
    """
    for name, sample in SAMPLES.items():
        given = set(table.roles) - {sample.truth}
        wanted = set(pd.read_csv(_path(sample.file), nrows=0).columns)
        if given != wanted or not table.in_memory:
            continue
        own = load_sample(name).frame
        return name if fingerprint(own) == fingerprint(table.frame[list(own.columns)]) else None
    return None


def load_sample_rules(name: str) -> str:
    """The suggested rule set of a sample, as JSON text.

    Parameters
    ----------
    name : str
        One of `sample_names()`.

    Returns
    -------
    str
        Text for `RuleSet.from_json`.

    Examples
    --------
    >>> from spu_core.rules import RuleSet
    >>> RuleSet.from_json(load_sample_rules("breast_cancer")).names
    ('Large worst radius', 'Rough worst texture')
    """
    return _path(_sample(name).rules_file).read_text(encoding="utf-8")


def load_sample_checks() -> pd.DataFrame:
    """The log of security checks of the anti-cheat sample: user, day, rule, outcome.

    >>> load_sample_checks().columns.tolist()
    ['user', 'day', 'rule', 'outcome']
    """
    return read_table(_path("anti_cheat_checks.csv")).frame


def sample_files(name: str, *, truth: bool = False) -> list[Path]:
    """The files of a sample: its tables and its suggested rules, on request also its truth.

    >>> [path.name for path in sample_files("breast_cancer")]
    ['breast_cancer.csv', 'breast_cancer.rules.json']
    """
    sample = _sample(name)
    found = sorted(sample_folder().glob(f"{sample.name}*"))
    return [path for path in found if truth or path.name != sample.truth_file]


def sample_folder() -> Path:
    """The folder of the sample files: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_dashboard" / "sample_data", package.parent / "sample_data"):
        if (folder / "README.md").is_file():
            return folder
    raise TableError("The folder 'sample_data' was not found beside or inside the package; install it again.")


def write_samples(folder: str | Path) -> None:
    """Make the tables of all samples again (not the rule sets, which are written by hand)."""
    for sample in SAMPLES.values():
        made = dict(sample.make())
        made[f"{sample.name}.truth"] = made[sample.name][[sample.truth]]
        made[sample.name] = made[sample.name].drop(columns=sample.truth)
        for stem, frame in made.items():
            frame.to_csv(Path(folder) / f"{stem}.csv", index=False, lineterminator="\n")


def _anti_cheat() -> Mapping[str, pd.DataFrame]:
    season = simulate_anti_cheat()
    return {"anti_cheat": season.players.frame, "anti_cheat_checks": season.checks}


SAMPLES: dict[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample(
            "anti_cheat",
            "Anti-cheat game",
            "8,000 simulated players, a month of security checks by five rules and a random one; few cheaters admit.",
            ANTI_CHEAT_ROLES,
            _anti_cheat,
        ),
        Sample(
            "breast_cancer",
            "Breast cancer",
            "569 real tumours; each malignant one is labelled with a random chance of at most one half.",
            BREAST_CANCER_ROLES,
            lambda: {"breast_cancer": simulate_breast_cancer().frame},
        ),
        Sample(
            "mild_cognitive_impairment",
            "Mild cognitive impairment",
            "5,000 simulated patients; diagnosed mostly near a specialist; the stage of impairment is known for all.",
            MEDICAL_ROLES,
            lambda: {"mild_cognitive_impairment": simulate_medical().frame},
        ),
        Sample(
            "ads_conversion",
            "Ad conversions",
            "8,000 simulated users who saw an ad; a purchase is seen only where tracking is on.",
            ADS_ROLES,
            lambda: {"ads_conversion": simulate_ads().frame},
        ),
    )
}


def _sample(name: str) -> Sample:
    if name not in SAMPLES:
        raise TableError(f"There is no sample {name!r}. {nearest_hint(str(name), SAMPLES)}")
    return SAMPLES[name]


def _path(file: str) -> Path:
    path = sample_folder() / file
    if not path.is_file():
        raise TableError(f"The sample file {file!r} is missing from {path.parent}; install the package again.")
    return path
