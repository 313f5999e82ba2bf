"""The paper's claims with our verdicts: all of them at a glance, and each with its reasons."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from pages.ui.paper.choice import SHORT
from pages.ui.paper.paper_cached import stored_results
from pages.ui.shared.text import plain
from spu_core.experiments import Claim, ExperimentResult
from spu_core.experiments.result import Verdict

MARKS = {
    "holds": ":green-badge[:material/check_circle: holds]",
    "holds partly": ":orange-badge[:material/adjust: holds partly]",
    "does not hold": ":red-badge[:material/cancel: does not hold]",
    "not shown": ":gray-badge[:material/help: not shown]",
}
MEANINGS: dict[Verdict, str] = {
    "holds": "Our figures agree, over seeds, on these rows.",
    "holds partly": "Some of our figures agree, over seeds, on these rows; others do not.",
    "does not hold": "Our figures disagree, over seeds, on these rows.",
    "not shown": "Our figures are too uncertain to tell.",
}


def show_verdicts() -> None:
    """How many claims hold, and the list of all."""
    results = [result for result in stored_results().values() if result is not None]
    claims = [claim for result in results for claim in result.claims]
    counts = Counter(claim.verdict for claim in claims)
    with st.container(horizontal=True, gap="small"):
        for verdict, meaning in MEANINGS.items():
            st.metric(
                verdict.capitalize(), f"{counts[verdict]} of {len(claims)}", help=meaning, border=True, width="stretch"
            )
    st.caption(
        "Seeds split and train anew, but on the same data, so these verdicts are about these rows. Claims about tables "
        "also say what is left after the correction of Nadeau and Bengio, which allows for the rows that seeds share."
    )
    with st.expander(f"All {len(claims)} claims, with our verdicts", icon=":material/fact_check:", expanded=True):
        for result in results:
            lines = [f"{MARKS[claim.verdict]} {plain(claim.text)}" for claim in result.claims]
            st.markdown("  \n".join([f"**{SHORT.get(result.name, plain(result.title))}**", *lines]))


def show_claims(result: ExperimentResult) -> None:
    """What the paper says, what we found, and why."""
    with st.container(border=True):
        for claim in result.claims:
            show_claim(claim)


def show_claim(claim: Claim) -> None:
    st.markdown(f"{MARKS[claim.verdict]} **{plain(claim.text)}**  \n{plain(claim.words)}")
