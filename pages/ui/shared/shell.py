"""What every page shares: steps and their marks, title, navigation, the address, error messages, deletion."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import streamlit as st

from pages.ui.shared.login import login_is_configured, workspace_of_this_person
from pages.ui.shared.text import plain
from spu_core.errors import SpuError, WorkspaceError, traceback_for_log
from spu_core.tables import Role
from spu_core.workspace import DatasetRecord, DeletionPlan, RuleSetVersion, Workspace
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
    marks = {"Data": DONE} if _has_positives(dataset) else {}
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


def _has_positives(dataset: DatasetRecord) -> bool:
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
        return "No row is a confirmed case.", "Check which values of the label mean a confirmed case."
    if labeled == rows:
        check = "There are no unlabelled rows. Check which values of the label mean a confirmed case."
        return "Every row is a confirmed case.", check
    return None


def link_to(step: Step, label: str, query: Mapping[str, str]) -> None:
    """A link that keeps the chosen dataset and rule set in the address."""
    st.page_link(step.file, label=label, icon=":material/arrow_forward:", query_params=dict(query))


BRAND = "SPU Studio"
READ_ONLY = (
    "This workspace is read-only: its disk is full or write-protected. You can view and download everything, but you "
    "cannot save, upload or train."
)
log = logging.getLogger("spu_studio")

# A ROC curve, inline, so that it needs no file beside the page.
_SIGN = """<defs><linearGradient id="g" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#0F5F5A"/>
<stop offset="1" stop-color="#5FC2B3"/></linearGradient></defs>
<rect x="2" y="6" width="36" height="36" rx="9" fill="url(#g)"/>
<path d="M8 36 C10 20 16 14 32 12" fill="none" stroke="#F0B35A" stroke-width="3.4" stroke-linecap="round"/>"""
# The text is light, for the dark sidebar. Where the sidebar is closed, the page shows only the icon.
LOGO = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 230 48" height="48">{_SIGN}
<text x="50" y="33" font-family="Georgia, 'Source Serif 4', serif" font-size="25" fill="#E6E2D6">SPU Studio</text>
</svg>"""
ICON = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 48" height="48">{_SIGN}</svg>"""


@dataclass(frozen=True)
class Page:
    """The open page: its workspace, and the dataset and rule set that its address names."""

    title: str
    workspace: Workspace
    dataset: DatasetRecord | None
    rules: RuleSetVersion | None

    @property
    def query(self) -> Mapping[str, str]:
        """The parameters of the address that links to other pages keep."""
        chosen = {"dataset": self.dataset, "rules": self.rules}
        return {key: record.id for key, record in chosen.items() if record is not None}

    def need_dataset(self) -> DatasetRecord:
        """The chosen dataset; without one the page shows what to do and stops."""
        if self.dataset is None:
            self.show_empty("No data yet.", "Upload a file or open a sample first.", "Data")
        assert self.dataset is not None
        return self.dataset

    def show_empty(self, what: str, advice: str, step: str, label: str = "") -> None:
        """Show what is missing, what to do, and a link to that page; then stop."""
        target = step_named(step)
        with st.container(border=True):
            st.subheader(what, anchor=False)
            st.write(advice)
            st.page_link(target.file, label=label or target.invitation, icon=target.icon, query_params=dict(self.query))
        st.stop()


@contextmanager
def open_page(title: str, promise: str) -> Iterator[Page]:
    """Draw the title and sidebar of a page and show the errors raised inside it; every page begins with this.

    Errors of the engine are shown as they are, because their messages contain advice. Any other error gets a reference
    number, and its traceback goes to the log.
    """
    name = title if title == BRAND else f"{title} · {BRAND}"
    st.set_page_config(page_title=name, page_icon=ICON, layout="wide")
    st.logo(LOGO, size="large", link=None, icon_image=ICON)
    page = None
    with show_errors(title):
        page = _page(title)
        if page.workspace.is_read_only:
            st.warning(READ_ONLY, icon=":material/lock:")
        with st.sidebar:
            _draw_steps(page)
    if page is None:
        st.stop()
    with st.container(gap="xsmall"):
        st.title(title, anchor=False)
        st.caption(promise)
    with show_errors(title):
        yield page


@contextmanager
def show_errors(title: str) -> Iterator[None]:
    """Show errors instead of raising them; parts of a page that run on their own, such as fragments, need it too."""
    try:
        yield
    except Exception as problem:
        # Streamlit wraps an error that occurs while the key of a cached call is made.
        known = next((each for each in (problem, problem.__cause__) if isinstance(each, SpuError)), None)
        if known is None:
            report_failure(problem, title)
        else:
            st.error(plain(known), icon=":material/error:")


def report_failure(problem: BaseException, title: str = "outside of a page") -> bool:
    """Show a reference number and log the traceback; True means that Streamlit need not show the error itself."""
    reference = secrets.token_hex(4)
    log.error("reference %s, page %s\n%s", reference, title, traceback_for_log(problem))
    st.error(
        f"An unexpected error occurred. The log has the details under reference **{reference}**. "
        "Your saved work is safe; reload the page to continue.",
        icon=":material/error:",
    )
    return True


def choose_in_address(**ids: str | None) -> None:
    """Put the chosen dataset or rule set into the address, so that a refresh or a shared link opens it again."""
    for key, value in ids.items():
        if value is None:
            st.query_params.pop(key, None)
        else:
            st.query_params[key] = value


def open_renamed_tab(parameter: str, renamed: Mapping[str, str]) -> None:
    """Open a tab by its former title, so that links from earlier versions still work; call it before `st.tabs`."""
    new = renamed.get(st.query_params.get(parameter, ""))
    if new is not None:
        st.session_state[parameter] = new


def _page(title: str) -> Page:
    workspace = workspace_of_this_person()
    dataset = _chosen_dataset(workspace)
    page = Page(title, workspace, dataset, _chosen_rules(workspace, dataset))
    # Defaults go into the address too, so that a shared link shows what its sender saw.
    choose_in_address(**{key: token for key, token in page.query.items() if key not in st.query_params})
    return page


def _chosen_dataset(workspace: Workspace) -> DatasetRecord | None:
    """The dataset of the address if this person has it, else the newest one."""
    wanted = st.query_params.get("dataset")
    if wanted is None:
        known = workspace.datasets.list()
        return known[0] if known else None
    try:
        return workspace.datasets.get(wanted)
    except WorkspaceError:
        choose_in_address(dataset=None, rules=None)
        st.warning("The dataset of this link is not in your workspace.", icon=":material/link_off:")
        return None


def _chosen_rules(workspace: Workspace, dataset: DatasetRecord | None) -> RuleSetVersion | None:
    """The rule set of the address, else the newest one of this dataset."""
    wanted = st.query_params.get("rules")
    if wanted is not None:
        try:
            return workspace.rule_sets.get(wanted)
        except WorkspaceError:
            choose_in_address(rules=None)
    return None if dataset is None else workspace.rule_sets.newest_of(dataset.id)


def _draw_steps(page: Page) -> None:
    marks = marks_of(page.workspace, page.dataset, page.rules)
    st.page_link("app.py", label="Start", icon=":material/home:", query_params=dict(page.query))
    for title, steps in (("Data", STEPS[:2]), ("Models", STEPS[2:4]), ("Use", STEPS[4:])):
        st.caption(title)
        for step in steps:
            _draw_step(step, marks.get(step.title, ""), page)
    if page.dataset is not None:
        st.divider()
        st.caption(f":material/table: {plain(page.dataset.name)}")
        if page.rules is not None:
            st.caption(f":material/rule: {plain(page.rules.name)}, version {page.rules.number}")
    if login_is_configured():
        st.button("Log out", on_click=st.logout, icon=":material/logout:", type="tertiary")
    else:
        st.caption("Only this computer can open this page.")


def _draw_step(step: Step, mark: str, page: Page) -> None:
    st.page_link(step.file, label=f"{step.title} {mark}".strip(), icon=step.icon, query_params=dict(page.query))


def confirm_deletion(page: Page, kind: str, token: str, *forget: str) -> None:
    """Show what is deleted with it, and ask; `forget` are the parameters of the address that refer to it."""

    def ask() -> None:
        with show_errors(page.title):
            plan = page.workspace.plan_deletion(kind, token)
            st.write(plain(plan))
            st.caption("This cannot be undone.")
            with st.container(horizontal=True):
                is_deleted = st.button(
                    ":red[Delete permanently]",
                    on_click=_delete,
                    args=(page, plan, forget),
                    icon=":material/delete_forever:",
                    key="delete_for_good",
                )
                is_cancelled = st.button("Cancel", key="delete_cancel")
            if is_deleted or is_cancelled:
                st.rerun()

    st.dialog(f"Delete this {kind}?", icon=":material/delete:")(ask)()


def _delete(page: Page, plan: DeletionPlan, forget: tuple[str, ...]) -> None:
    with show_errors(page.title):
        page.workspace.delete(plan)
        choose_in_address(**dict.fromkeys(forget))
