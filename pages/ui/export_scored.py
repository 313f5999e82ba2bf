"""Scored rows on the page: what was flagged, what has moved since training, and the result to take away."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.compare_tables import share_column
from pages.ui.show import show_figure
from pages.ui.tables import show_table
from pages.ui.text import count, plain, share
from spu_core.engines.export_files import file_stem
from spu_core.engines.jobs.score import SCORE_FORMS, ScoredFile
from spu_core.export import ColumnDrift, ScoreReport

NAMES = {"csv": "CSV, safe in spreadsheets", "raw_csv": "CSV, raw cells", "parquet": "Parquet"}
SHOWN = 200


def show_scored(scored: ScoredFile, stem: str, key: str) -> None:
    """Flags, drift in words, the best rows, and all of them to take away under a name that starts with `stem`."""
    _show_flags(scored.report)
    _show_drift(scored.report)
    _show_rows(scored)
    _offer_result(scored, stem, key)


def _show_flags(report: ScoreReport) -> None:
    cards = st.columns(3, gap="small")
    show_figure(cards[0], "Rows scored", count(report.rows), "in this file")
    show_figure(cards[1], "Flagged", count(report.flagged), f"{share(report.flag_rate)} of rows")
    show_figure(
        cards[2],
        "Threshold",
        f"{report.threshold:.4g}",
        f"flagged {share(report.training_share)} at training",
        about="threshold",
    )


def _show_drift(report: ScoreReport) -> None:
    """The notes in words; the figures of each column one click away."""
    with st.container(border=True):
        st.markdown(":material/compare_arrows: **Against the training rows**")
        st.markdown("\n".join(f"- {plain(note)}" for note in report.notes))
        with st.expander("How far each column has moved", icon=":material/table:"):
            config = {
                "moved": share_column("Moved", "The share of rows that would have to lie elsewhere to look as before."),
                "unseen": share_column("Unseen levels", "Values that training did not know, or met too rarely."),
                "missing": share_column("Missing now", "Empty cells in this file."),
                "before": share_column("Missing at training", "Empty cells in the training rows."),
            }
            show_table(_drift_table(report.drift.columns), hide_index=True, column_config=config)


def _drift_table(columns: tuple[ColumnDrift, ...]) -> pd.DataFrame:
    ordered = sorted(columns, key=lambda column: column.moved, reverse=True)
    rows = [
        (each.name, 100 * each.moved, 100 * each.unseen, 100 * each.missing_now, 100 * each.missing_before)
        for each in ordered
    ]
    return pd.DataFrame(rows, columns=["column", "moved", "unseen", "missing", "before"])


def _show_rows(scored: ScoredFile) -> None:
    shown = scored.best(SHOWN)
    many = f"The {count(len(shown))} highest scores" if scored.report.rows > len(shown) else "All rows"
    st.caption(f"{many}, the highest first. Flagged rows come with reasons.")
    config = {
        "score": st.column_config.NumberColumn(format="%.4f"),
        "percentile": st.column_config.NumberColumn(format="%.1f"),
    }
    show_table(shown, hide_index=True, height=320, column_config=config)


def _offer_result(scored: ScoredFile, stem: str, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        form = st.segmented_control(
            "All rows as",
            list(NAMES),
            default="csv",
            required=True,
            format_func=NAMES.__getitem__,
            key=f"{key}_result_form",
            label_visibility="collapsed",
        )
        suffix, mime = SCORE_FORMS[str(form)]
        st.download_button(
            "Download all rows",
            lambda: scored.to_bytes(str(form)),
            file_name=f"{file_stem(stem)}-scored{suffix}",
            mime=mime,
            icon=":material/download:",
            type="primary",
            on_click="ignore",
            key=f"{key}_result",
        )
    st.caption("Safe: text that a spreadsheet would run as a formula gets an apostrophe. Raw: cells as they are.")
