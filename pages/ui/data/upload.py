"""Upload a file, open a sample or an earlier dataset; files are read in the background."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from pages.ui.shared.shell import Page, choose_in_address, confirm_deletion, show_errors
from pages.ui.shared.text import count, plain, row_count, sized
from spu_core.engines import cancel, jobs_now
from spu_core.engines.jobs.read import carry_over, earlier_upload, import_file, readings
from spu_core.tables.samples import SAMPLES, load_sample, load_sample_rules
from spu_core.workspace import DatasetRecord, JobRecord, JobStatus

FILE_TYPES = ["csv", "tsv", "txt", "gz", "zip", "parquet", "xlsx", "arrow", "feather", "jsonl"]
POLL_SECONDS = 0.5
STOPPED = {
    JobStatus.FAILED: "This could not be read.",
    JobStatus.CANCELLED: "The reading was cancelled.",
    JobStatus.INTERRUPTED: "The reading was interrupted.",
}


def upload_file(page: Page) -> None:
    """Copy an uploaded file into the workspace at once, and start a job that reads it."""
    st.subheader("Your file", anchor=False)
    # A new key empties the uploader and frees the memory of the file.
    number = st.session_state.get("data_uploads", 0)
    uploaded = st.file_uploader(
        "CSV, TSV, Parquet, Excel, Arrow or JSON lines, also gzipped or zipped. The format is detected from the "
        "content, not the file name.",
        type=FILE_TYPES,
        key=f"data_upload_{number}",
    )
    if uploaded is None:
        return
    with st.spinner(f"Uploading {plain(uploaded.name)} …"):
        job = import_file(page.workspace, uploaded, uploaded.name)
    st.session_state["data_uploads"] = number + 1
    choose_in_address(reading=job.id)
    st.rerun()


def show_readings(page: Page) -> bool:
    """The file that is being read, or its result; returns whether that file was read, or none was uploaded."""
    job = _followed_job(page)
    if job is None:
        return True
    if job.status.is_over:
        _show_end(job)
    else:
        st.fragment(_show_progress, run_every=POLL_SECONDS)(page, job.id)
    return job.status not in STOPPED


def _followed_job(page: Page) -> JobRecord | None:
    """The reading job that the address names; else one that is running, or that ended while this page was open."""
    found = readings(jobs_now(page.workspace))
    followed, seen = st.query_params.get("reading"), st.session_state.get("data_seen")
    job = next((job for job in found if job.id in (followed, seen)), None)
    job = job or next((job for job in found if not job.status.is_over), None)
    if followed is not None and (job is None or job.id != followed):
        choose_in_address(reading=None)
    if job is not None and job.status is JobStatus.FINISHED:
        if job.id == followed:
            _open(str(job.result["dataset"]))
        if page.dataset is not None and page.dataset.id == job.result["dataset"]:
            job = None  # it is open already: the page was left and opened again meanwhile
    st.session_state["data_seen"] = None if job is None else job.id
    return job


def _show_progress(page: Page, token: str) -> None:
    with show_errors(page.title):
        job = next((job for job in jobs_now(page.workspace) if job.id == token), None)
        if job is None or job.status.is_over:
            st.rerun()  # the whole page: it opens the dataset, or shows the error
        with st.container(border=True, key="data_reading"):
            words = "waiting for its turn" if job.status is JobStatus.WAITING else job.message
            st.progress(job.share, text=f"**{plain(job.title)}**: {plain(words)}")
            with st.container(horizontal=True, vertical_alignment="center"):
                if st.button("Cancel", icon=":material/cancel:", key="data_reading_cancel"):
                    cancel(page.workspace, token)
                    st.rerun()
                st.caption("You can continue with other work, or close this tab and come back.")


def _show_end(job: JobRecord) -> None:
    with st.container(border=True, key="data_reading"):
        if job.status is JobStatus.FINISHED:
            st.success(f"**{plain(job.title)}** was read.", icon=":material/check_circle:")
        else:
            st.error(f"**{STOPPED[job.status]}** {plain(job.error)}", icon=":material/error:")
        with st.container(horizontal=True):
            if job.status is JobStatus.FINISHED and st.button("Open it", type="primary", key="data_reading_open"):
                _open(str(job.result["dataset"]))
            if st.button("Close", icon=":material/close:", key="data_reading_close"):
                st.session_state["data_seen"] = None
                choose_in_address(reading=None)
                st.rerun()


def _open(dataset: str, rules: str | None = None) -> None:
    """Open a dataset, and stop following a reading job."""
    st.session_state["data_seen"] = None
    choose_in_address(dataset=dataset, rules=rules, reading=None)
    st.rerun()


def choose_dataset(page: Page) -> None:
    """Open or delete a dataset of this workspace."""
    known = page.workspace.datasets.list()
    if not known:
        return
    ids = [record.id for record in known]
    names = {record.id: _in_one_line(record) for record in known}
    current = ids.index(page.dataset.id) if page.dataset and page.dataset.id in ids else 0
    with st.container(border=True):
        st.subheader("Or earlier work", anchor=False)
        which, open_it, delete_it = st.columns([4, 1, 1], gap="small", vertical_alignment="bottom")
        chosen = which.selectbox(
            "Datasets of this workspace",
            ids,
            index=current,
            format_func=names.__getitem__,
            key=f"data_earlier_{ids[current]}",  # opening another dataset changes the default
        )
        is_open = page.dataset is not None and chosen == page.dataset.id
        if open_it.button("Open", width="stretch", disabled=is_open, key="data_open"):
            _open(chosen)
        if delete_it.button("Delete …", width="stretch", icon=":material/delete:", key="data_delete"):
            confirm_deletion(page, "dataset", chosen, "dataset", "rules")


def _in_one_line(record: DatasetRecord) -> str:
    place = sized(record.size) if record.folder is None else "in a folder"
    return f"{record.name} · {row_count(record.n_rows)} · {place} · {_when(record)}"


def _when(record: DatasetRecord) -> str:
    return f"{record.made:%d %b %Y, %H:%M}"


@contextmanager
def choosing_data(page: Page) -> Iterator[None]:
    """Where data is chosen: open while there is none, else one line that unfolds."""
    dataset = page.dataset
    if dataset is None:
        yield
        return
    columns = f"{count(dataset.n_columns)} column{'s' * (dataset.n_columns != 1)}"
    title = f"**{plain(dataset.name)}** · {row_count(dataset.n_rows)} · {columns} · {_when(dataset)} · Change"
    # A key per dataset folds the box once another dataset is open.
    with st.expander(title, icon=":material/table:", key=f"data_change_{dataset.id}"):
        _rename(page, dataset)
        yield


def _rename(page: Page, dataset: DatasetRecord) -> None:
    typed, rename = st.columns([5, 1], gap="small", vertical_alignment="bottom")
    name = typed.text_input("Name of this data set", dataset.name, max_chars=200, key=f"data_name_{dataset.id}")
    is_new = bool(name.strip()) and name.strip() != dataset.name
    if rename.button("Rename", width="stretch", disabled=not is_new, key="data_rename"):
        page.workspace.datasets.rename(dataset.id, name)
        st.rerun()


def offer_earlier(page: Page) -> None:
    """For a file that was uploaded before: carry its roles and rules over, or start afresh."""
    dataset = page.dataset
    if dataset is None or page.rules is not None or dataset.version > 1:
        return
    earlier = earlier_upload(page.workspace, dataset)
    declined = f"data_afresh_{dataset.id}"
    if earlier is None or st.session_state.get(declined):
        return
    rules = page.workspace.rule_sets.newest_of(earlier.id)
    what = "its roles" if rules is None else "its roles and rules"
    with st.container(border=True, horizontal=True, vertical_alignment="center", wrap=False, key="data_earlier"):
        st.markdown(
            f":material/history: **{plain(earlier.name)}** was uploaded before, on {_when(earlier)} "
            f"({row_count(earlier.n_rows)}). Carry {what} over?",
            width="stretch",
        )
        if st.button("Carry over", type="primary", key="data_carry"):
            carry_over(page.workspace, earlier, dataset)
            st.rerun()
        if st.button("Start afresh", key="data_afresh"):
            st.session_state[declined] = True
            st.rerun()


def choose_sample(page: Page) -> None:
    """A button for each sample; it comes with rules that fit it."""
    with st.container(border=True):
        st.subheader("Or a sample", anchor=False)
        for column, (name, sample) in zip(st.columns(len(SAMPLES), gap="small"), SAMPLES.items(), strict=True):
            if column.button(sample.title, key=f"sample_{name}", width="stretch"):
                _load_sample(page, name)
            column.caption(sample.description)


def _load_sample(page: Page, name: str) -> None:
    with st.spinner(f"Loading {SAMPLES[name].title} …"):
        ids = take_sample(page, name)
    _open(ids["dataset"], ids["rules"])


def take_sample(page: Page, name: str) -> dict[str, str]:
    """Store a sample and its rules; returns what the address names."""
    title = SAMPLES[name].title
    dataset = page.workspace.datasets.save(load_sample(name), title)
    known = page.workspace.rule_sets.newest_of(dataset.id)
    rules = known or page.workspace.rule_sets.create(title, load_sample_rules(name), "rules of the sample", dataset.id)
    return {"dataset": dataset.id, "rules": rules.id}
