"""The pages in the order of the work: their titles, links, and which of them are done or stale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from spu_core.tables import Role
from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace
from spu_core.workspace.workspace import progress_of

DONE, STALE = ":material/check_circle:", ":material/history:"


@dataclass(frozen=True)
class Step:
    """One page of the pipeline."""

    number: int
    title: str
    file: str
    icon: str
    promise: str
    invitation: str


STEPS = (
    Step(
        1,
        "Data",
        "pages/1_data.py",
        ":material/upload_file:",
        "Upload a CSV, Parquet or Excel file, or open a sample. Check how it was read.",
        "Upload data",
    ),
    Step(
        2,
        "Soft labels",
        "pages/2_soft_labels.py",
        ":material/rule:",
        "Select values in a chart and set how strongly you believe that such rows are positive.",
        "Define rules",
    ),
    Step(
        3,
        "Train",
        "pages/3_train.py",
        ":material/model_training:",
        "Choose candidates and baselines. They are trained in the background.",
        "Train candidates",
    ),
    Step(
        4,
        "Compare",
        "pages/4_compare.py",
        ":material/show_chart:",
        "Curves against the ceiling, with intervals; choose an operating point.",
        "Compare models",
    ),
    Step(
        5,
        "Trust",
        "pages/5_trust.py",
        ":material/verified:",
        "How reliable the figures are, and how to check them at low cost.",
        "Check reliability",
    ),
    Step(
        6,
        "Export",
        "pages/6_export.py",
        ":material/ios_share:",
        "Export the chosen model for production; score new files.",
        "Export",
    ),
    Step(
        7,
        "Paper",
        "pages/7_paper.py",
        ":material/menu_book:",
        "The paper's tables and theorems, reproduced, with baselines.",
        "Check the claims",
    ),
)


def step_named(title: str) -> Step:
    """The step with this title."""
    return next(step for step in STEPS if step.title == title)


def marks_of(workspace: Workspace, dataset: DatasetRecord | None, rules: RuleSetVersion | None) -> Mapping[str, str]:
    """Which steps are done, and which are stale because an earlier step changed after them."""
    if dataset is None:
        return {}
    marks = {"Data": DONE} if _says_what_is_positive(dataset) else {}
    if rules is not None:
        marks["Soft labels"] = DONE
    progress = progress_of(workspace, dataset.id)
    if progress.trained_on:
        current = (None, None) if rules is None else (rules.id, rules.number)
        marks["Train"] = marks["Compare"] = DONE if current in progress.trained_on else STALE
    if progress.has_outcomes:
        marks["Trust"] = DONE
    if progress.exported:
        is_current = progress.champion is None or progress.champion in progress.exported
        marks["Export"] = DONE if is_current else STALE
    return marks


def next_step(marks: Mapping[str, str]) -> Step:
    """The first of the steps to a model in production that is not done."""
    return next((step for step in STEPS[:-1] if step.title != "Trust" and marks.get(step.title) != DONE), STEPS[-2])


def _says_what_is_positive(dataset: DatasetRecord) -> bool:
    """Whether a column marks confirmed cases, or holds soft labels."""
    roles = set(dataset.roles.values())
    return Role.SOFT_LABEL in roles or (Role.LABEL in roles and bool(dataset.positive_values))


def missing_in_data(*, has_label: bool, rows: int, labeled: int) -> tuple[str, str] | None:
    """What the data lacks for training, and what to do; None where nothing is missing.

    >>> missing_in_data(has_label=True, rows=1, labeled=1)[0]
    'This data has only one row.'
    """
    if rows == 1:
        return "This data has only one row.", "A model compares rows. Upload a file with more rows."
    if not has_label:
        return "No label column yet.", "Choose the column that marks confirmed cases and give it the role label."
    if labeled == 0:
        return "No row is a confirmed positive.", "Check which values of the label mean a confirmed positive."
    if labeled == rows:
        check = "There are no unlabelled rows. Check which values of the label mean a confirmed positive."
        return "Every row is a confirmed positive.", check
    return None


def link_to(step: Step, label: str, query: Mapping[str, str]) -> None:
    """A link that keeps the chosen dataset and rule set in the address."""
    st.page_link(step.file, label=label, icon=":material/arrow_forward:", query_params=dict(query))
