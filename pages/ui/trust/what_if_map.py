"""The What if section: what AUC_SPU would imply about the true AUC, if Theorem 2 held."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.show import explain_words, meaning, show_chart, theme
from pages.ui.shared.text import figure, plain
from pages.ui.soft_labels.cached import estimate_prior
from pages.ui.trust.cached import audited_figures, implied_figures, newest_audit, true_figures
from pages.ui.trust.evaluated_model import EvaluatedModel
from spu_core.charts import what_if_chart
from spu_core.engines.audit_results import AuditResult
from spu_core.metrics import Interval
from spu_core.trust import Implied, Marker, WhatIf
from spu_core.trust.what_if import Quantity

NAMES = {"prior": "trust_prior_value", "positive_mean": "trust_positive_mean", "negative_mean": "trust_negative_mean"}
QUANTITIES: dict[Quantity, str] = {"true_auc": "True AUC", "tpr": "TPR", "fpr": "FPR"}


def show_what_if(model: EvaluatedModel) -> None:
    """Three numbers, one of which follows from the others by E[S], and the figures that they would imply."""
    what_if = implied_figures(model)
    audit = newest_audit(model)
    _show_status(audit)
    known, limit = _known_markers(model), _upper_limit(model)
    controls, chart = st.columns([2, 3], gap="medium")
    with controls, st.container(border=True):
        implied = _choose(model, what_if, known)
        _show_implied(implied)
        where = "the operating point" if model.point is not None else "the review budget (no operating point is chosen)"
        st.caption(f"TPR and FPR at {where}: rows scored above {what_if.threshold:.4g}.")
    with chart, st.container(border=True):
        quantity = st.segmented_control(
            "Map of",
            list(QUANTITIES),
            default="true_auc",
            required=True,
            format_func=QUANTITIES.__getitem__,
            key="trust_quantity",
            help="TPR and FPR are those where this model flags.",
        )
        drawn = what_if_chart(
            what_if,
            quantity=quantity or "true_auc",
            chosen=implied,
            markers=(*known, *limit),
            theme=theme(),
        )
        show_chart(drawn, "trust_what_if_map")
    explain_words("AUC_SPU", "soft label", "mean soft label", "TPR_SPU", "FPR_SPU")


def _show_status(audit: AuditResult | None) -> None:
    """Whether the assumption was tested by an audit, and with which result."""
    if audit is None:
        st.info(
            "**A what-if, not an estimate.** It holds only if S does not depend on the score within each true class. "
            "Rules read the columns, so they usually violate this. An audit can test it.",
            icon=":material/psychology_alt:",
        )
    elif audit.assumptions.is_score_refuted:
        st.warning(f"**This map does not hold here.** {plain(audit.assumptions.sentences[1])}", icon=":material/block:")
    else:
        st.warning(f"**Still a what-if.** {plain(audit.assumptions.sentences[1])}", icon=":material/fact_check:")


def _choose(model: EvaluatedModel, what_if: WhatIf, markers: tuple[Marker, ...]) -> Implied:
    state = f"trust_at_{'_'.join(map(str, model.key[1:]))}"
    if state not in st.session_state:
        st.session_state[state] = what_if.default(markers)
    at = st.session_state[state]
    implied = what_if.at(*at)
    values = {
        "prior": at[0],
        "positive_mean": at[1],
        "negative_mean": implied.link.negative_mean,
    }
    limits = {"prior": (0.001, 0.999), "positive_mean": (what_if.mean, 1.0), "negative_mean": (0.0, what_if.mean)}
    words = {
        "prior": ("π, share of true positives", "The share of all rows that are truly positive."),
        "positive_mean": (
            "S_P, mean soft label of true positives",
            "The mean soft label that your rules give to true positives.",
        ),
        "negative_mean": (
            "S_N, mean soft label of true negatives",
            "The mean soft label that your rules give to true negatives.",
        ),
    }
    for name, key in NAMES.items():
        low, high = limits[name]
        st.session_state[key] = min(max(values[name], low), high)
        st.slider(
            words[name][0],
            low,
            high,
            step=(high - low) / 500,
            format="%.3f",
            key=key,
            help=f"{words[name][1]} E[S] = πS_P + (1−π)S_N = {what_if.mean:.3f} is known, so moving one moves another.",
            on_change=_move,
            args=(what_if, state, name),
        )
    _offer_markers(what_if, state, markers)
    return implied


def _move(what_if: WhatIf, state: str, name: str) -> None:
    st.session_state[state] = what_if.moved(st.session_state[state], name, float(st.session_state[NAMES[name]]))


def _offer_markers(what_if: WhatIf, state: str, markers: tuple[Marker, ...]) -> None:
    usable = [m for m in markers if m.positive_mean is None or what_if.region.contains(m.prior, m.positive_mean)]
    if not usable:
        return
    with st.container(horizontal=True):
        for marker in usable:
            st.button(
                f"Use {plain(marker.name)}",
                key=f"trust_take_{marker.name}",
                type="tertiary",
                icon=":material/my_location:",
                on_click=_use_marker,
                args=(what_if, state, marker),
            )


def _use_marker(what_if: WhatIf, state: str, marker: Marker) -> None:
    st.session_state[state] = what_if.default((marker,))


def _show_implied(implied: Implied) -> None:
    st.markdown("**Would imply**")
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        for title, found in (("True AUC", implied.true_auc), ("TPR", implied.tpr), ("FPR", implied.fpr)):
            st.metric(title, _value(found), help=_help(found), width="content")
    box = st.warning if implied.is_refuted else st.markdown
    box(plain(implied.sentence))


def _value(found: Interval) -> str:
    return "not possible" if not 0.0 <= found.estimate <= 1.0 else figure(found.estimate)


def _help(found: Interval) -> str:
    return (
        f"{found.estimate:.3f} ({found.low:.3f} to {found.high:.3f}): includes the sampling error of the "
        "SPU figures, not the uncertainty of π, S_P or the assumption. A value outside 0 to 1 refutes the assumption."
    )


def _known_markers(model: EvaluatedModel) -> tuple[Marker, ...]:
    """Known values: from the checked rows, and from the truth column."""
    checked = audited_figures(model)
    found = []
    if checked and checked["positive_mean"].missing == 0:
        found.append(Marker("audit", checked["prior"].estimate, checked["positive_mean"].estimate))
    truth = true_figures(model)
    if truth:
        found.append(Marker("truth", truth["prior"], truth["positive_mean"]))
    return tuple(found)


def _upper_limit(model: EvaluatedModel) -> tuple[Marker, ...]:
    """The upper estimate of π, if asked for: a limit on the map, not a value to use."""
    asked = st.toggle(
        "Mark the upper estimate of π",
        key="trust_bbe",
        persist_state="session",
        help=f"Estimated from the scores of confirmed positives; trains a small model. {meaning('label')}",
    )
    if not asked:
        return ()
    estimate = estimate_prior(model.workspace, model.dataset)
    st.caption(plain(estimate.sentence))
    return (Marker("upper estimate", estimate.range[1]),)
