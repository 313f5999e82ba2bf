"""Results of the paper's experiments, and the button that runs one of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.ui.shared.cached import cache_result
from pages.ui.shared.shell import Page, show_errors
from pages.ui.shared.show import show_chart, show_table, theme
from pages.ui.shared.text import plain
from spu_core.charts import DARK, LIGHT
from spu_core.engines import Job, JobLimits, cancel, jobs_now, start_worker
from spu_core.errors import WorkspaceError
from spu_core.experiments import EXPERIMENTS, Claim, Experiment, ExperimentResult, ResultTable, stored_result
from spu_core.experiments.catalog import KIND, Verdict, compare_figures, compare_verdicts, result_of
from spu_core.experiments.figures import PaperFigure, figures_of, printed_beside_ours
from spu_core.tables.spreadsheet import to_csv
from spu_core.workspace import JobRecord, JobStatus, Workspace

SHORT = {
    "table1": "Table 1",
    "table2": "Table 2",
    "table3": "Table 3",
    "theorems": "Theorems and figures",
    "selection": "Model selection",
    "features": "Feature selection",
    "discussion": "Target or feature",
}
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
    "not shown": "Our figures are too uncertain to decide.",
}
IMAGES = ("svg", "png")
# The tables of the paper that are shown with printed figures, and what they hold.
TABLES = {"table1": "true AUC, UCI data", "table2": "true AUC, images", "table3": "anti-cheat game"}
PICTURES = ("theorem1", "theorem2", "theorem4", "theorem5")
OVERVIEW_HEIGHT = 180


@cache_result(1)
def stored_results() -> dict[str, ExperimentResult | None]:
    """Every experiment with its stored result; None where this version ships none."""
    return {name: _stored(name) for name in EXPERIMENTS}


def _stored(name: str) -> ExperimentResult | None:
    try:
        return stored_result(name)
    except WorkspaceError:
        return None


def show_overview() -> None:
    """One screen: how many claims hold, the three tables printed beside ours, and the theorems as pictures."""
    results = {name: result for name, result in stored_results().items() if result is not None}
    _show_verdicts(results)
    _show_printed([results[name] for name in TABLES if name in results])
    if "theorems" in results:
        _show_theorems(results["theorems"])
    _show_all_claims()


def _show_verdicts(results: Mapping[str, ExperimentResult]) -> None:
    claims = [claim for result in results.values() for claim in result.claims]
    counts = Counter(claim.verdict for claim in claims)
    with st.container(horizontal=True, gap="small"):
        for verdict, meaning in MEANINGS.items():
            st.metric(
                verdict.capitalize(), f"{counts[verdict]} of {len(claims)}", help=meaning, border=True, width="stretch"
            )


def _show_printed(results: Sequence[ExperimentResult]) -> None:
    for column, result in zip(st.columns(max(len(results), 1), gap="small"), results, strict=False):
        with column:
            st.markdown(f"**{SHORT[result.name]}** {TABLES[result.name]}")
            digits = "%.3g" if result.name == "table3" else "%.3f"  # shares in percent, else AUC
            show_table(
                printed_beside_ours(result),
                hide_index=True,
                height=OVERVIEW_HEIGHT,
                key=f"paper_printed_{result.name}",
                column_config={
                    "what": st.column_config.TextColumn("", width=130),
                    "printed": st.column_config.NumberColumn("printed", format=digits, width=62),
                    "ours": st.column_config.NumberColumn("ours", format=digits, width=62),
                },
            )


@cache_result(4)
def _theorem_pictures(_result: ExperimentResult, names: tuple[str, ...], is_dark: bool) -> dict[str, go.Figure]:
    """Small pictures of the theorems by name."""
    figures, shown = figures_of(_result), DARK if is_dark else LIGHT
    drawn = {name: figures[name].of(_result, theme=shown) for name in names}
    for figure in drawn.values():
        figure.update_layout(showlegend=False, height=OVERVIEW_HEIGHT + 30, margin={"t": 8})
    return drawn


def _show_theorems(result: ExperimentResult) -> None:
    titles = {name: each.title for name, each in figures_of(result).items() if name in PICTURES}
    pictures = _theorem_pictures(result, tuple(titles), theme() is DARK)
    for column, (name, figure) in zip(st.columns(max(len(pictures), 1)), pictures.items(), strict=False):
        with column:
            st.markdown(f"**{plain(titles[name])}**")
            show_chart(figure, key=f"paper_picture_{name}")


def _show_all_claims() -> None:
    """Every claim with our verdict, folded."""
    results = [result for result in stored_results().values() if result is not None]
    many = sum(len(result.claims) for result in results)
    with st.expander(f"All {many} claims, with our verdicts", icon=":material/fact_check:"):
        for result in results:
            lines = [f"{MARKS[claim.verdict]} {plain(claim.text)}" for claim in result.claims]
            st.markdown("  \n".join([f"**{SHORT.get(result.name, plain(result.title))}**", *lines]))
        st.caption(
            "Each seed makes a new split and a new training of the same data, so these verdicts hold for these rows. "
            "Claims about tables also give the result after the correction of Nadeau and Bengio for rows that seeds "
            "share."
        )


def choose_experiment() -> tuple[Experiment, ExperimentResult | None] | None:
    """Ask for an experiment; returns it with its stored result, if there is one, or None while none is chosen."""
    names = list(EXPERIMENTS)
    wanted = st.query_params.get("experiment")
    st.subheader("In detail", anchor=False)
    picked = st.segmented_control(
        "Choose an experiment to see its claims, figures and tables, and to run it again",
        names,
        default=wanted if wanted is None or wanted in names else names[0],
        format_func=lambda name: SHORT.get(name, name),
        key="paper_experiment",
    )
    if picked is None:
        st.query_params.pop("experiment", None)
        return None
    name = picked if picked in names else names[0]
    st.query_params["experiment"] = name
    chosen, result = EXPERIMENTS[name], stored_results()[name]
    st.header(chosen.title, anchor=False)
    st.markdown(chosen.description)
    if result is None:
        st.info("This version ships no stored result of this experiment.", icon=":material/info:")
    return chosen, result


def show_claims(result: ExperimentResult) -> None:
    """Each claim of the paper, our result, and the reason."""
    with st.container(border=True):
        for claim in result.claims:
            show_claim(claim)


def show_claim(claim: Claim) -> None:
    st.markdown(f"{MARKS[claim.verdict]} **{plain(claim.text)}**  \n{plain(claim.words)}")


def show_figures(result: ExperimentResult, key: str = "paper") -> str:
    """One figure, chosen where there are several; returns its name, or an empty text where the result has none."""
    figures = figures_of(result)
    if not figures:
        return ""
    with st.container(border=True):
        names = list(figures)
        shown = names[0] if len(names) == 1 else _choose(figures, key)
        _show(result, figures[shown], f"{key}_{result.name}_{shown}")
    return shown


def _choose(figures: Mapping[str, PaperFigure], key: str) -> str:
    names = list(figures)
    picked = st.pills(
        "Figure",
        names,
        default=names[0],
        required=True,
        format_func=lambda name: figures[name].title.split(":")[0],
        label_visibility="collapsed",
        key=f"{key}_figure",
    )
    return picked if picked in names else names[0]


def _show(result: ExperimentResult, figure: PaperFigure, key: str) -> None:
    st.subheader(plain(figure.title), anchor=False)
    st.caption(plain(figure.caption))
    views = figure.choices(result)
    choice = None
    if len(views) > 1:
        choice = _choose_view(result, figure, views, f"{key}_view")
    image = st.session_state.get("paper_image", IMAGES[0])
    show_chart(figure.of(result, choice, theme=theme()), key=f"{key}_chart", image=image, with_texts=True)


def _choose_view(result: ExperimentResult, figure: PaperFigure, views: tuple[str, ...], key: str) -> str:
    first = figure.first_view(result)
    if _are_numbers(views):
        return st.select_slider(figure.choice, views, value=first, key=key)
    return st.selectbox(figure.choice, views, index=views.index(first), key=key)


def _are_numbers(views: tuple[str, ...]) -> bool:
    return all(view.replace(".", "", 1).isdigit() for view in views)


def show_tables(result: ExperimentResult, figure: str = "") -> None:
    """The tables behind the chosen figure, the others in an expander; each with its note and a CSV."""
    chosen = [table for table in result.tables if figure and table.name.startswith(figure)]
    others = [table for table in result.tables if table not in chosen]
    for table in chosen:
        _show_named(result, table)
    if others and chosen:
        with st.expander(f"{len(others)} more table{'s' * (len(others) != 1)}", icon=":material/table:"):
            for table in others:
                _show_named(result, table)
    elif others:
        for table in others:
            _show_named(result, table)


def _show_named(result: ExperimentResult, table: ResultTable) -> None:
    show_result_table(table, f"paper_{result.name}_{table.name}", f"{result.name}-{table.name}.csv")


def show_result_table(table: ResultTable, key: str, file: str = "") -> None:
    frame = table.frame()
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"**{plain(table.title)}**", width="content")
        if file:
            st.download_button(
                "CSV",
                lambda: to_csv(frame).encode("utf-8"),
                file_name=file,
                mime="text/csv",
                icon=":material/download:",
                type="tertiary",
                on_click="ignore",
                key=f"{key}_csv",
            )
    show_table(frame, hide_index=True, column_config=_formats(table), key=key, placeholder="–")
    if table.note:
        st.caption(plain(table.note))


def show_provenance(result: ExperimentResult) -> None:
    """How the figures were made: choices, commit, settings and versions."""
    made = result.provenance
    with st.expander("Our choices, and how these figures were made", icon=":material/history_edu:"):
        st.markdown("\n".join(f"- {plain(choice)}" for choice in result.choices))
        st.caption(plain(made.describe()))
        st.json(
            {"commit": made.commit, "settings": dict(made.settings), "versions": dict(made.versions)}, expanded=False
        )


def show_downloads(result: ExperimentResult) -> None:
    """The whole result as JSON, Markdown and text."""
    forms: dict[str, tuple[Any, str, str]] = {
        "JSON": (result.to_json, "json", "application/json"),
        "Markdown": (result.to_markdown, "md", "text/markdown"),
        "Text": (result.to_text, "txt", "text/plain"),
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        for name, (make, suffix, mime) in forms.items():
            st.download_button(
                name,
                make,
                file_name=f"{result.name}.{suffix}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
                key=f"paper_{result.name}_{suffix}",
            )
        st.segmented_control(
            "The camera above a figure saves",
            IMAGES,
            default=IMAGES[0],
            required=True,
            format_func=str.upper,
            key="paper_image",
            help="Move over a figure: the camera at its upper right corner saves it as an image of this format.",
        )


def _formats(table: ResultTable) -> dict[str, Any]:
    """Four decimals for small figures, up to three for the rest, as many as the column needs; text is pinned."""
    found: dict[str, Any] = {}
    for place, name in enumerate(table.columns):
        values = [value for value in table.column(name) if isinstance(value, float)]
        if values:
            largest = max(abs(value) for value in values)
            digits = "%.1e" if 0 < largest < 5e-4 else f"%.{_decimals(values, 4 if largest < 0.1 else 3)}f"
            found[name] = st.column_config.NumberColumn(format=digits)
        elif place == 0:
            found[name] = st.column_config.TextColumn(pinned=True)
    return found


def _decimals(values: list[float], most: int) -> int:
    """How many decimals the values need, up to `most`.

    >>> _decimals([0.0, 0.25, 0.8], 3), _decimals([1.0, 6.0], 3), _decimals([0.12345], 3)
    (2, 0, 3)
    """
    return next(
        (digits for digits in range(most) if all(round(value, digits) == value for value in values if value == value)),
        most,
    )


POLL_SECONDS = 1.0
WHOLE = "all"


def offer_rerun(page: Page, chosen: Experiment, stored: ExperimentResult | None) -> None:
    """A button that runs a small version, or the command for an experiment that needs other data or hours."""
    st.subheader("Check it yourself", anchor=False)
    st.markdown(f"On the command line, at full size: `spu paper {chosen.name} --run`")
    if not chosen.live:
        st.caption(plain(_needs(chosen)))
        return
    job = _job(chosen)
    mine = [each for each in jobs_now(page.workspace) if _is_same(each, job)]
    active = bool(mine) and not mine[0].status.is_over
    if st.button(
        "Running …" if active else "Run it here",
        icon=":material/play_arrow:",
        type="primary",
        disabled=active,
        key="paper_run",
        help="A small version, in the background: it has fewer rows and seeds than the stored run, so larger errors.",
    ):
        start_worker(page.workspace, job)
        st.rerun()
    if mine:
        st.fragment(_show_job, run_every=POLL_SECONDS if active else None)(page, mine[0].id, stored, active)


def _needs(chosen: Experiment) -> str:
    parts = []
    data = [need for need in chosen.needs if need != "vision"]
    if data:
        parts.append(
            f"It needs the data {', '.join(data)}: from a folder (--data or SPU_DATA), or downloaded from OpenML "
            "on a connected machine"
        )
    if "vision" in chosen.needs:
        parts.append("and torch: pip install 'spu-studio[vision]'")
    return f"{', '.join(parts)}. It takes about {chosen.typical_minutes:.0f} minutes, too long for a page."


def _job(chosen: Experiment) -> Job:
    parameters = {"experiment": chosen.name, "scale": "smoke"}
    title = chosen.title
    if chosen.parts:
        part = st.selectbox(
            "Which part",
            [WHOLE, *chosen.parts],
            format_func=lambda name: "All of them" if name == WHOLE else chosen.parts[name],
            key="paper_part",
        )
        if part in chosen.parts:
            parameters["part"], title = part, chosen.parts[part]
    return Job(kind=KIND, parameters=parameters, title=title[:80], limits=JobLimits(threads=1, seconds=1800))


def _is_same(record: JobRecord, job: Job) -> bool:
    return record.kind == job.kind and dict(record.parameters) == dict(job.parameters)


def _show_job(page: Page, token: str, stored: ExperimentResult | None, was_active: bool) -> None:
    with show_errors(page.title):
        job = next((each for each in jobs_now(page.workspace) if each.id == token), None)
        if job is None:
            return
        if was_active and job.status.is_over:
            st.rerun()  # the whole page: the button and the refresh interval of this fragment change
        if not job.status.is_over:
            _show_progress(page, job)
        elif job.status is JobStatus.FINISHED:
            fresh = _rerun_result(page.workspace, job.id, dict(job.result))
            _show_rerun(job, fresh, stored)
        else:
            st.error(plain(job.error or "The run ended without a result."), icon=":material/error:")


@cache_result(8)
def _rerun_result(workspace: Workspace, job: str, _result: dict[str, object]) -> ExperimentResult:
    return result_of(_result)


def _show_progress(page: Page, job: JobRecord) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.share, text=plain(job.message or "waiting for its turn"))
        if st.button("Cancel", icon=":material/stop_circle:", key="paper_cancel"):
            cancel(page.workspace, job.id)
            st.rerun()


def _show_rerun(job: JobRecord, fresh: ExperimentResult, stored: ExperimentResult | None) -> None:
    with st.container(border=True, key="paper_fresh"):
        st.markdown(
            f":material/check_circle: **Run here** on {job.made:%d %b, %H:%M}, in {fresh.provenance.seconds:.0f} s. "
            "It is smaller than the stored run, so its figures vary more."
        )
        if stored is not None:
            for claim, before, now in compare_verdicts(stored, fresh).rows:
                was = MARKS.get(str(before), "no verdict")
                st.markdown(f"{plain(claim)}  \nstored {was} now {MARKS[str(now)]}")
            show_result_table(
                compare_figures(stored, fresh), f"paper_compared_{job.id}", f"{fresh.name}-stored-and-now.csv"
            )
        show_figures(fresh, key=f"paper_fresh_{job.id}")
