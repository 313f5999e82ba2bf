"""Score new files with a model, and import models and rules from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import TypeAlias

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from pages.ui.data.upload import FILE_TYPES
from pages.ui.shared.cached import cache_result, load_table
from pages.ui.shared.shell import Page, choose_in_address, link_to, show_errors, step_named
from pages.ui.shared.show import (
    figure_cards,
    in_percent,
    share_column,
    show_chart,
    show_figure,
    show_findings,
    show_table,
    theme,
)
from pages.ui.shared.text import count, figure, plain, row_count, share
from spu_core.charts import scoring_history_chart, waterfall_chart
from spu_core.engines import cancel, jobs_now
from spu_core.engines.export_files import file_stem
from spu_core.engines.jobs.score import (
    SCORE_FORMS,
    ScoredFile,
    remember_scoring,
    score_foreign,
    score_upload,
    scored_before,
    scores_at_once,
    scoring_history,
    start_scoring,
    start_scoring_dataset,
    stored_scores,
)
from spu_core.engines.stored_runs import keep_as_run, keep_rules, kept_before, refusal_to_keep
from spu_core.errors import BundleError
from spu_core.export import Bundle, ColumnDrift, ScoreReport, Scoring, load_bundle, model_card
from spu_core.export.monitoring import history_table, monitoring_verdict
from spu_core.export.score_report import DriftLevel, RowExplanation
from spu_core.rules import RuleSet
from spu_core.workspace import DatasetRecord, JobRecord, JobStatus, RunRecord, Workspace

Explain: TypeAlias = Callable[[int], RowExplanation]
ScoreNow: TypeAlias = Callable[[UploadedFile, str], ScoredFile]

FLAG_BY = {"threshold": "the stored threshold", "share": "the stored share"}
FEW, MANY = 6, 300
POLL_SECONDS = 1.0
SHOWN_EARLIER = 20
NAMES = {"csv": "CSV, safe in spreadsheets", "raw_csv": "CSV, raw cells", "parquet": "Parquet"}
SHOWN = 200
RANK_WORDS = (
    "A rank score puts rows into an order: the higher, the more suspicious. It is not a probability: 0.99 does not "
    "mean 99%."
)
UNIT_WORDS = {
    "log-odds": "In log-odds: what each column adds to the baseline of the model, or takes away.",
    "score": "How far the rank score falls when this column alone has its usual value, or the rules are silent. What "
    "columns add only together is in *all other columns*.",
}


def score_new_file(page: Page, bundle: Bundle, key: str, score_now: ScoreNow, run: RunRecord | None = None) -> None:
    """Ask for a file and score it: a small one by `score_now`, a large one by a job if the bundle is a stored run.

    The result of a job is stored with the run.
    """
    left, right = st.columns([3, 2], gap="medium")
    with left:
        uploaded = st.file_uploader(
            "New rows as CSV, TSV, Parquet, Excel, Arrow or JSON lines, also gzipped or zipped",
            type=FILE_TYPES,
            key=f"{key}_rows",
        )
        _show_columns(bundle)
    with right:
        flag_by = st.radio(
            "Flag by",
            list(FLAG_BY),
            format_func=FLAG_BY.__getitem__,
            horizontal=True,
            key=f"{key}_flag_by",
            help="The stored threshold flags every row above it. The stored share flags a fixed share of the rows, "
            "for a review queue of known size.",
        )
        st.caption(":material/info: Scores of rows that the model was trained on are too good.")
    with show_errors(page.title):
        if uploaded is None and run is not None:
            score_folder(page, run.id, flag_by, key)
        if uploaded is None:
            _show_earlier(page, None if run is None else run.id, key)
        elif run is None or scores_at_once(run, uploaded):
            explain = None if run is None else partial(_explain, page.workspace, bundle, run.id, uploaded)
            show_scored(score_now(uploaded, flag_by), PurePath(uploaded.name).stem, key, explain)
        else:
            asked = f"{uploaded.file_id} {flag_by} {run.id} {bundle.point}"
            _score_in_background(page, run.id, uploaded, asked, flag_by)
            _show_job(page, run.id, key)


# Scored rows are in a temporary file, which is deleted with the cache entry.
@cache_result(8, "Scoring …", ttl=3600)
def score_file(
    workspace: Workspace, _bundle: Bundle, run: str, point: str, uploaded: UploadedFile, flag_by: str
) -> ScoredFile:
    """An uploaded file, scored by a stored run at this operating point; its report joins the history of the run."""
    uploaded.seek(0)
    scored = score_upload(_bundle, uploaded, Scoring(flag_by=flag_by))
    remember_scoring(workspace, run, uploaded.name, scored.report)
    return scored


@cache_result(64, "Explaining the row …", ttl=3600)
def _explain(workspace: Workspace, _bundle: Bundle, run: str, uploaded: UploadedFile, row: int) -> RowExplanation:
    """What each column adds to the score of a row of an uploaded file; `run` is the id of the model."""
    uploaded.seek(0)
    return _bundle.explain(uploaded, row)


def show_history(workspace: Workspace, run: str) -> None:
    """Drift over time: flagged share and scores of all files that were scored with this run; nothing for none."""
    events = scoring_history(workspace, run)
    if not events:
        return
    with st.container(border=True, key="export_history"):
        st.markdown(":material/timeline: **Scored files over time**")
        level, sentence = monitoring_verdict(events)
        show = {DriftLevel.WARNING: st.warning, DriftLevel.WATCH: st.info}.get(level, st.caption)
        show(plain(sentence))
        table = history_table(events)
        if len(events) > 1:
            show_chart(scoring_history_chart(table, theme=theme()), key="export_history_chart")
        shares = {"flagged_share": "Flagged", "training_share": "Flagged at training"}
        config = {
            "scored": st.column_config.DatetimeColumn("Scored", format="D MMM YYYY, HH:mm"),
            "file": "File",
            "level": st.column_config.TextColumn("Drift", help="How much the file differs from the training rows."),
            "rows": st.column_config.NumberColumn("Rows", format="localized"),
            **{name: share_column(title, "Share of rows.") for name, title in shares.items()},
            **{
                name: st.column_config.NumberColumn(title, format="%.3f")
                for name, title in {
                    "score_low": "5% score below",
                    "score_median": "Median score",
                    "score_high": "95% score below",
                }.items()
            },
            "moved_most": "Changed most",
            "missing": "More missing",
        }
        newest_first = in_percent(in_percent(table, "flagged_share"), "training_share").iloc[::-1]
        show_table(newest_first, hide_index=True, column_config=config)
        st.caption("`spu monitor` prints this table and returns exit code 1 for a warning.")


@cache_result(8, "Loading the scored rows …")
def _load_scores(workspace: Workspace, export: str) -> ScoredFile:
    """Scored rows that a job has kept; their file is checked once."""
    return stored_scores(workspace, export)


def _score_in_background(page: Page, run: str, uploaded: UploadedFile, asked: str, flag_by: str) -> None:
    """Start the job of an upload once; its id goes into the address, so that a refresh shows it again."""
    if st.session_state.get("export_scoring_asked") == asked:
        return
    uploaded.seek(0)
    with st.spinner("Copying the file …"):
        job = start_scoring(page.workspace, run, uploaded, uploaded.name, flag_by)
    st.session_state["export_scoring_asked"] = asked
    choose_in_address(scoring=job.id)


def _show_earlier(page: Page, run: str | None, key: str) -> None:
    """Without a file: the job of the address, or one of the files that this run has scored before."""
    if run is None:
        return
    if _job(page, run) is not None:
        _show_job(page, run, key)
        return
    known = scored_before(page.workspace, run)[:SHOWN_EARLIER]
    names = {record.id: f"{record.name} · {record.made:%Y-%m-%d %H:%M} UTC" for record in known}
    if not known:
        return
    chosen = st.selectbox(
        "Or a file that was scored before",
        list(names),
        index=None,
        format_func=names.__getitem__,
        placeholder="Choose a result",
        key=f"{key}_earlier_{run}",
    )
    if chosen is not None:
        show_scored(_load_scores(page.workspace, chosen), PurePath(names[chosen]).stem.split(",")[0], key)


def _job(page: Page, run: str) -> JobRecord | None:
    """The scoring job that the address names, if it is one of this run."""
    wanted = st.query_params.get("scoring")
    if wanted is None:
        return None
    found = (job for job in jobs_now(page.workspace) if job.id == wanted and job.kind == "score")
    return next((job for job in found if job.parameters.get("run") == run), None)


def _show_job(page: Page, run: str, key: str) -> None:
    job = _job(page, run)
    if job is None:
        return
    if job.status is JobStatus.FINISHED:
        scored = _load_scores(page.workspace, str(job.result["export"]))
        _offer_closing("These rows are stored with the model.", key)
        show_scored(scored, PurePath(job.title).stem, key)
    elif job.status.is_over:
        st.error(plain(job.error), icon=":material/error:")
        _offer_closing("", key)
    else:
        st.fragment(_show_progress, run_every=POLL_SECONDS)(page, run, key)


def _show_progress(page: Page, run: str, key: str) -> None:
    with show_errors(page.title):
        job = _job(page, run)
        if job is None or job.status.is_over:
            st.rerun()  # the whole page: the result replaces the progress bar
            return
        with st.container(border=True, key=f"{key}_scoring"):
            rows = job.detail.get("rows")
            many = "" if rows is None else f", {row_count(rows)}"
            words = "waiting for its turn" if job.status is JobStatus.WAITING else f"{job.message}{many}"
            st.progress(job.share, text=f"**{plain(job.title)}**: {plain(words)}")
            with st.container(horizontal=True, vertical_alignment="center"):
                if st.button("Cancel", icon=":material/cancel:", key=f"{key}_scoring_cancel"):
                    cancel(page.workspace, job.id)
                    st.rerun()
                st.caption("You can continue with other work, or close this tab and come back.")


def _offer_closing(words: str, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if words:
            st.caption(f":material/inventory_2: {words}", width="content")
        if st.button("Close", icon=":material/close:", key=f"{key}_scoring_close", type="tertiary"):
            choose_in_address(scoring=None)
            st.rerun()


def _show_columns(bundle: Bundle) -> None:
    """The columns that a file must have: the first ones, and all of them in the help text."""
    names = [plain(name) for name in bundle.columns]
    few = ", ".join(names[:FEW]) + (f" and {count(len(names) - FEW)} more" if len(names) > FEW else "")
    words = (
        f":material/view_column: Reads {few or 'no column'}. Columns may be in any order; other columns are ignored."
    )
    st.caption(words, help=", ".join(names[:MANY]) if len(names) > FEW else None)


def score_folder(page: Page, run: str, flag_by: str, key: str) -> None:
    """Choose one of the registered folders; shows nothing if there are none."""
    folders = {each.id: each for each in page.workspace.datasets.list() if each.folder is not None}
    if not folders:
        return
    which, score = st.columns([4, 1], gap="small", vertical_alignment="bottom")
    chosen = which.selectbox(
        "Or a registered folder",
        list(folders),
        index=None,
        format_func=lambda token: f"{folders[token].name} · {row_count(folders[token].n_rows)}",
        placeholder="Choose a folder",
        key=f"{key}_folder",
        help="Folders are registered on the Data page; a folder of new rows may be registered too.",
    )
    asked = score.button("Score it", width="stretch", disabled=chosen is None, key=f"{key}_folder_score")
    if asked and chosen is not None:
        choose_in_address(scoring=start_scoring_dataset(page.workspace, run, folders[chosen], flag_by).id)
        st.rerun()


def show_scored(scored: ScoredFile, stem: str, key: str, explain: Explain | None = None) -> None:
    """What was flagged, drift since training, the highest scores, and a download whose name starts with `stem`.

    `explain` gives the explanation of a row by its position in the file, where the file is still there.
    """
    _show_flags(scored.report)
    _show_drift(scored.report)
    _show_rows(scored)
    if explain is not None:
        _explain_row(scored, explain, key)
    _offer_result(scored, stem, key)


def _show_flags(report: ScoreReport) -> None:
    cards = figure_cards(3)
    show_figure(cards[0], "Rows scored", count(report.rows), "in this file")
    show_figure(cards[1], "Flagged", count(report.flagged), f"{share(report.flag_rate)} of rows")
    show_figure(
        cards[2],
        "Threshold",
        f"{report.threshold:.3g}",
        f"flagged {share(report.training_share)} at training",
        about="threshold",
    )


def _show_drift(report: ScoreReport) -> None:
    """Notes about drift, and a table of all columns in an expander."""
    with st.container(border=True):
        st.markdown(":material/compare_arrows: **Against the training rows**")
        show = {DriftLevel.WARNING: st.warning, DriftLevel.WATCH: st.info}.get(report.level, st.success)
        show(plain(report.conclusion))
        details = [note for note in report.notes if note != report.conclusion]
        st.markdown("\n".join(f"- {plain(note)}" for note in details))
        with st.expander("Change of each column", icon=":material/table:"):
            config = {
                "moved": share_column(
                    "Changed", "The share of rows that would need another value to restore the old distribution."
                ),
                "unseen": share_column("New categories", "Values that were absent or too rare in the training rows."),
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
    st.caption(f"{many}, the highest first. Flagged rows come with reasons. {RANK_WORDS}")
    config = {
        "score": st.column_config.NumberColumn("rank score", format="%.3f", help=RANK_WORDS),
        "percentile": st.column_config.NumberColumn(format="%.1f"),
        **{name: name.replace("_", " ") for name in shown.columns if name.startswith("reason_")},
    }
    show_table(shown, hide_index=True, height=320, column_config=config)


def _explain_row(scored: ScoredFile, explain: Explain, key: str) -> None:
    """Choose one of the highest rows, and see what each column adds to its score."""
    shown, places = scored.best(SHOWN), scored.best_places(SHOWN)
    chosen = st.selectbox(
        "Explain a row",
        range(len(shown)),
        index=None,
        format_func=lambda at: f"{shown['id'][at]} · rank {shown['rank'][at]} · rank score {shown['score'][at]:.3f}",
        placeholder="Choose one of these rows",
        key=f"{key}_explained",
    )
    if chosen is None:
        return
    found = explain(places[chosen])
    chart = waterfall_chart(
        found.parts, start=found.start, end=found.end, rest=found.rest, unit=found.unit, theme=theme()
    )
    show_chart(chart, key=f"{key}_waterfall")
    st.caption(UNIT_WORDS[found.unit])


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
    st.caption("Safe: text that a spreadsheet would run as a formula gets an apostrophe. Raw: cells are unchanged.")


def import_from_elsewhere(page: Page) -> None:
    """Import a bundle or a rule set from a file; after the checks the page offers what can be done with it."""
    st.subheader("Import a bundle or a rule set", anchor=False)
    st.caption(
        ":material/verified_user: Import only what comes from a sender you trust. Its hashes show that it was not "
        "changed on the way, not who made it."
    )
    uploaded = st.file_uploader(
        "A bundle (.spu) or rules (.json). The content is never run as code.",
        type=["spu", "json"],
        key="export_foreign",
    )
    if uploaded is None:
        return
    with show_errors(page.title):
        if uploaded.name.lower().endswith(".json"):
            _show_rules(page, uploaded)
        else:
            _show_bundle(page, uploaded)


def _show_rules(page: Page, uploaded: UploadedFile) -> None:
    rules = RuleSet.from_json(uploaded.getvalue())
    with st.container(border=True):
        st.markdown(f":material/rule: **{count(len(rules))} rules**")
        st.code(str(rules) or "no rules", language=None, wrap_lines=True)
        if page.dataset is not None:
            show_findings(rules.check(load_table(page.workspace, page.dataset)))
        if st.button("Save in the workspace", key="export_keep_rules", type="primary"):
            name = uploaded.name.rsplit(".", 1)[0]
            _show_kept_rules(keep_rules(page.workspace, name, rules).id)


def _show_bundle(page: Page, uploaded: UploadedFile) -> None:
    bundle = _check_bundle(page.workspace, uploaded)
    if isinstance(bundle, str):
        st.error(plain(bundle), icon=":material/error:")
        return
    with st.container(border=True):
        _show_origin(bundle)
        _offer_keeping(page, bundle, uploaded)
    st.subheader("Score a new file with it", anchor=False)
    score_new_file(page, bundle, "foreign", partial(_score_file, page.workspace, uploaded))


@cache_result(8, "Checking and testing the bundle in a separate process …", ttl=3600)
def _check_bundle(workspace: Workspace, uploaded: UploadedFile) -> Bundle | str:
    """An uploaded bundle that was checked and tested, or the message that refuses it."""
    try:
        return load_bundle(uploaded.getvalue())
    except BundleError as refused:
        return str(refused)


# Scored rows are in a temporary file, which is deleted with the cache entry.
@cache_result(8, "Scoring in a separate process …", ttl=3600)
def _score_file(workspace: Workspace, bundle: UploadedFile, uploaded: UploadedFile, flag_by: str) -> ScoredFile:
    """An uploaded file, scored by an uploaded bundle in a separate process."""
    uploaded.seek(0)
    return score_foreign(bundle.getvalue(), uploaded, Scoring(flag_by=flag_by))


def _show_origin(bundle: Bundle) -> None:
    facts, metrics = bundle.facts, bundle.facts.metrics or {}
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/verified_user: **{plain(bundle.name)}**", width="content")
        st.badge("Checked and tested", icon=":material/check:", color="green")
    value = (metrics.get("auc_spu") or {}).get("estimate")
    words = [
        f"{plain(bundle.fitted.candidate.entry.title)}, trained on {row_count(facts.rows)}",
        f"of {plain(bundle.details.data_name)}" if bundle.details.data_name else "",
        "" if value is None else f"· AUC\\_SPU {figure(value)}",
        f"· flags {share(bundle.point.share)}",
    ]
    st.caption(" ".join(word for word in words if word))
    with st.expander("Its model card", icon=":material/description:"):
        st.code(model_card(bundle), language=None, wrap_lines=True, height=400)


def _offer_keeping(page: Page, bundle: Bundle, uploaded: UploadedFile) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if page.dataset is not None:
            _offer_run(page, page.dataset, bundle, uploaded.getvalue())
        if bundle.label_rules is not None and st.button("Keep its rules", key="export_keep_its_rules"):
            rules = bundle.label_rules.rules.rules
            _show_kept_rules(keep_rules(page.workspace, f"Rules of {bundle.name}", rules).id)


def _offer_run(page: Page, dataset: DatasetRecord, bundle: Bundle, data: bytes) -> None:
    """Offer to keep a bundle of the same table as a run of the dataset; otherwise show why not."""
    refused = refusal_to_keep(bundle, dataset)
    if refused is not None:
        st.caption(f":material/info: {plain(refused)}")
    elif kept_before(page.workspace, dataset, data) is not None:
        st.badge("A run of this dataset", icon=":material/check_circle:", color="green")
        link_to(step_named("Compare"), "Compare models", page.query)
    elif st.button("Keep as a run of this dataset", key="export_keep_run", type="primary"):
        keep_as_run(page.workspace, dataset, bundle, data)
        st.rerun()


def _show_kept_rules(token: str) -> None:
    choose_in_address(rules=token)
    st.success("Saved in the workspace and selected.", icon=":material/check_circle:")
    query = {key: st.query_params[key] for key in ("dataset", "rules") if key in st.query_params}
    link_to(step_named("Soft labels"), "Show the rules", query)
