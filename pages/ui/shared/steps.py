"""The steps of the pipeline, as the analyst sees them; the shell draws the navigation from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace

_FOLDER = Path(__file__).resolve().parents[3]
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

    @property
    def is_open(self) -> bool:
        """Whether the page is there; pages of a later release are shown, but lead nowhere."""
        return (_FOLDER / self.file).is_file()


STEPS = (
    Step(
        1,
        "Data",
        "pages/1_data.py",
        ":material/upload_file:",
        "Drop a CSV, Parquet or Excel file, or take a sample. See what was read and how.",
        "Bring data",
    ),
    Step(
        2,
        "Soft labels",
        "pages/2_soft_labels.py",
        ":material/rule:",
        "Drag across a histogram, say how sure you are, watch the ceiling move.",
        "Say what you know",
    ),
    Step(
        3,
        "Train",
        "pages/3_train.py",
        ":material/model_training:",
        "Pick candidates and honest baselines; they train in the background.",
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
        "What the figures say about the truth, and how to find out cheaply.",
        "Ask how sure",
    ),
    Step(
        6,
        "Export",
        "pages/6_export.py",
        ":material/ios_share:",
        "Take the chosen model to production; score new files.",
        "Take it away",
    ),
    Step(
        7,
        "Paper",
        "pages/7_paper.py",
        ":material/menu_book:",
        "The paper's tables and theorems, reproduced, with honest baselines.",
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
    marks = {"Data": DONE}
    if rules is not None:
        marks["Soft labels"] = DONE
    runs = workspace.runs.list(dataset.id)
    if runs:
        current = None if rules is None else (rules.id, rules.number)
        fresh = any((run.rule_set, run.rule_set_version) == current for run in runs)
        marks["Train"] = marks["Compare"] = DONE if fresh else STALE
    if workspace.outcomes.list(dataset.id):
        marks["Trust"] = DONE
    exported = [run.id for run in runs if workspace.exports.list(run.id)]
    if exported:
        champion = workspace.thresholds.champion(dataset.id)
        marks["Export"] = DONE if champion is None or champion.run in exported else STALE
    return marks


def link_to(step: Step, label: str, query: Mapping[str, str]) -> None:
    """A link that keeps the chosen dataset and rule set in the address."""
    st.page_link(
        step.file if step.is_open else "app.py",
        label=label if step.is_open else "In a later release",
        icon=":material/arrow_forward:" if step.is_open else ":material/schedule:",
        disabled=not step.is_open,
        query_params=dict(query),
    )
