"""What every page shares: its title, the steps in the sidebar, the address that survives a refresh, and the way a
failure is told."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import streamlit as st

from pages.ui.shared.people import login_is_configured, workspace_of_this_person
from pages.ui.shared.steps import STEPS, Step, marks_of, step_named
from pages.ui.shared.text import plain
from spu_core.errors import SpuError, WorkspaceError, traceback_for_log
from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace

BRAND = "SPU Studio"
KEPT_IN_ADDRESS = ("dataset", "rules")
READ_ONLY = (
    "This workspace cannot be written now: its disk is full or read-only. You can look at everything and download it, "
    "but nothing can be saved, uploaded or trained."
)
log = logging.getLogger("spu_studio")

# Inline, so that it needs no file beside the page: a curve that bends towards the upper left corner.
_SIGN = """<defs><linearGradient id="g" x1="0" y1="0" x2="1" y2="1"><stop offset="0" stop-color="#0F5F5A"/>
<stop offset="1" stop-color="#5FC2B3"/></linearGradient></defs>
<rect x="2" y="6" width="36" height="36" rx="9" fill="url(#g)"/>
<path d="M8 36 C10 20 16 14 32 12" fill="none" stroke="#F0B35A" stroke-width="3.4" stroke-linecap="round"/>"""
# The words are light, for the dark sidebar; where it is closed, the sign stands alone on the page.
LOGO = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 230 48" height="48">{_SIGN}
<text x="50" y="33" font-family="Georgia, 'Source Serif 4', serif" font-size="25" fill="#E6E2D6">SPU Studio</text>
</svg>"""
ICON = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 48" height="48">{_SIGN}</svg>"""


@dataclass(frozen=True)
class Page:
    """The open page: whose workspace it shows, and what its address chose."""

    title: str
    workspace: Workspace
    dataset: DatasetRecord | None
    rules: RuleSetVersion | None

    @property
    def query(self) -> Mapping[str, str]:
        """What a link to another page must carry along."""
        chosen = {"dataset": self.dataset, "rules": self.rules}
        return {key: record.id for key, record in chosen.items() if record is not None}

    def need_dataset(self) -> DatasetRecord:
        """The chosen dataset; without one the page says what to do and ends."""
        if self.dataset is None:
            self.say_empty("No data yet.", "Bring a file or take a sample; it takes a minute.", "Data")
        assert self.dataset is not None
        return self.dataset

    def need_rules(self) -> RuleSetVersion:
        """The chosen rule set; without one the page says what to do and ends."""
        self.need_dataset()
        if self.rules is None:
            self.say_empty("No soft labels yet.", "Say what you know about your rows first.", "Soft labels")
        assert self.rules is not None
        return self.rules

    def say_empty(self, what: str, advice: str, step: str) -> None:
        """An empty state: what is missing, what to do, and the link there. Ends the page."""
        target = step_named(step)
        with st.container(border=True):
            st.subheader(what, anchor=False)
            st.write(advice)
            st.page_link(target.file, label=target.invitation, icon=target.icon, query_params=dict(self.query))
        st.stop()


@contextmanager
def open_page(title: str, promise: str) -> Iterator[Page]:
    """Draw the frame of a page and guard what happens inside it; every page begins with this.

    What the analyst can mend is said in the engine's words. Anything else gets a reference number, and its traceback
    goes to the log.
    """
    name = title if title == BRAND else f"{title} · {BRAND}"
    st.set_page_config(page_title=name, page_icon=ICON, layout="wide")
    st.logo(LOGO, size="large", link=None, icon_image=ICON)
    page = None
    with told_in_words(title):
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
    with told_in_words(title):
        yield page


@contextmanager
def told_in_words(title: str) -> Iterator[None]:
    """Guard a part of a page that runs on its own, such as a fragment: what fails is said in words."""
    try:
        yield
    except SpuError as error:
        st.error(plain(error), icon=":material/error:")
    except Exception as problem:
        tell_failure(problem, title)


def tell_failure(problem: BaseException, title: str = "outside of a page") -> bool:
    """A reference number for the viewer, the traceback for the log; True, for nothing more needs to be shown."""
    reference = secrets.token_hex(4)
    log.error("reference %s, page %s\n%s", reference, title, traceback_for_log(problem))
    st.error(
        f"Something went wrong that is not your fault. The log has the details under reference **{reference}**. "
        "Your saved work is safe; reload the page to go on.",
        icon=":material/error:",
    )
    return True


def choose_in_address(**ids: str | None) -> None:
    """Put the chosen dataset or rule set into the address, so that a refresh or a shared link comes back to it."""
    for key, value in ids.items():
        if value is None:
            st.query_params.pop(key, None)
        else:
            st.query_params[key] = value


def _page(title: str) -> Page:
    workspace = workspace_of_this_person()
    dataset = _chosen_dataset(workspace)
    page = Page(title, workspace, dataset, _chosen_rules(workspace, dataset))
    # What was chosen for them is in the address from now on: a link that is shared shows what its sender saw.
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
        st.warning("This link leads to a dataset that is not in your workspace.", icon=":material/link_off:")
        return None


def _chosen_rules(workspace: Workspace, dataset: DatasetRecord | None) -> RuleSetVersion | None:
    """The rule set of the address, else the newest one whose columns this dataset has."""
    wanted = st.query_params.get("rules")
    if wanted is not None:
        try:
            return workspace.rule_sets.get(wanted)
        except WorkspaceError:
            choose_in_address(rules=None)
    if dataset is None:
        return None
    columns = set(dataset.roles)
    return next((known for known in workspace.rule_sets.list() if _reads_only(known, columns)), None)


def _reads_only(version: RuleSetVersion, columns: set[str]) -> bool:
    # Rules bring pandas and SciPy along; the first page of a fresh server does without them.
    from spu_core.rules import RuleSet

    try:
        read = RuleSet.from_json(version.text).columns
    except SpuError:
        return False  # a damaged set is named where it is opened, not here
    return bool(read) and set(read) <= columns


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
    st.page_link(
        step.file if step.is_open else "app.py",
        label=f"{step.title} {mark}".strip(),
        icon=step.icon,
        disabled=not step.is_open,
        query_params=dict(page.query),
    )
