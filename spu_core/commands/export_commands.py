"""Commands that export a run: `spu export`, `verify`, `serve`, `report` and `track`."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from spu_core.checks import check_choice
from spu_core.codec import dump_json
from spu_core.commands.command_io import (
    STANDARD,
    AsJson,
    Folder,
    Force,
    OriginName,
    RunName,
    RunNames,
    audited,
    bundles_of,
    is_file,
    opened_model,
    origin_of,
    plain,
    print_result,
    read_input,
    refuse_overwriting,
    write_output,
)
from spu_core.engines.export_files import EXPORT_FORMS, ExportedFile, ExportTexts, with_texts, zipped
from spu_core.errors import BundleError
from spu_core.export import (
    Bundle,
    bundle_bytes,
    export_onnx,
    load_bundle,
    log_to_mlflow,
    model_card,
    model_card_html,
    sign_file,
    verify_file,
    write_folder,
)
from spu_core.export.monitoring import reference_profile
from spu_core.export.report import report_html
from spu_core.export.service import KEY_VARIABLE, ServiceLimits, check_host, run_service
from spu_core.training import compare_runs, recommend

REPORT = "report.html"
# The form for the ending of the output, if none is given.
BY_ENDING = {".spu": "bundle", ".onnx": "onnx", ".md": "card_md", ".html": "card_html", ".zip": "folder", "": "folder"}


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("export")(export)
    app.command("verify")(verify)
    app.command("serve")(serve)
    app.command("report")(report)
    app.command("track")(track)


def _forms(start: str) -> list[str]:
    return [form for form in EXPORT_FORMS if form.startswith(start)]


def export(
    run: RunName,
    output: Annotated[str, typer.Option("--output", "-o", help="A file or a new folder; - for standard output.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--as", help=f"What to write: {', '.join(EXPORT_FORMS)}; else the ending says.", autocompletion=_forms
        ),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Rows to prove an ONNX model on; a stored run is proven on its own table.")
    ] = None,
    purpose: Annotated[str, typer.Option(help="For the model card: what the model is for.")] = "",
    licence: Annotated[str, typer.Option(help="For the model card: who may use it, and how.")] = "",
    contact: Annotated[str, typer.Option(help="For the model card: who answers questions.")] = "",
    because: Annotated[str, typer.Option(help="For the model card: how it was chosen.")] = "",
    change: Annotated[
        list[str] | None, typer.Option(help="For the model card: what has changed; may be given several times.")
    ] = None,
    keep_rows: Annotated[
        bool, typer.Option(help="Keep scores, soft labels and labels of the training rows in a bundle.")
    ] = True,
    force: Force = False,
    sign: Annotated[
        Path | None, typer.Option(help="An Ed25519 private key (PEM); the signature is written to OUTPUT.sig.")
    ] = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Write a run as bundle, ONNX model, model card, or folder with a stand-alone scoring script."""
    form = form or BY_ENDING.get(Path(output).suffix, "")
    check_choice(form, EXPORT_FORMS, "--as (or the ending of the output)", BundleError)
    refuse_overwriting(output, force)
    if sign is not None and (output == STANDARD or (form == "folder" and not output.endswith(".zip"))):
        raise BundleError("Only a file can be signed; give --output the name of a file.")
    frame = None if rows is None else read_input(rows).frame
    words = ExportTexts(
        purpose=purpose,
        licence=licence,
        contact=contact,
        chosen_because=because,
        changes="\n".join(change or ()),
        keep_rows=keep_rows,
    )
    made = _of_file(run, words, form, frame) if is_file(run) else _of_stored(run, words, form, workspace)
    _write(made, form, output, force)
    signature = None if sign is None else str(sign_file(output, sign))
    value = {"output": output, "form": form, "bytes": len(made.data), "note": made.note, "signature": signature}
    print_result(value, "\n".join(filter(None, (output, signature, made.note))), as_json, beside=output)


def verify(
    file: Annotated[str, typer.Argument(help="An exported file, with its signature FILE.sig beside it.")],
    key: Annotated[Path, typer.Option(help="The sender's Ed25519 public key (PEM).")],
    as_json: AsJson = False,
) -> None:
    """Check that a file was signed with the sender's key and not changed since; exit code 1 if not."""
    verify_file(file, key)
    print_result({"file": file, "is_signed": True}, f"{file} was signed with this key and not changed since.", as_json)


def serve(
    run: RunName,
    host: Annotated[str, typer.Option(help=f"Address to listen on; others than 127.0.0.1 need {KEY_VARIABLE}.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8600,
    at_once: Annotated[int, typer.Option(min=1, help="Requests that are scored at a time; others get 503.")] = 4,
    body: Annotated[int, typer.Option(min=1, help="The largest body, in MB.")] = 16,
    key: Annotated[Path | None, typer.Option(help="Refuse a bundle that is not signed with this public key.")] = None,
    workspace: Folder = None,
) -> None:
    """Serve a model over HTTP: POST /score, GET /health, /schema, /metrics and a page at /docs."""
    secret = os.environ.get(KEY_VARIABLE) or None
    check_host(host, secret)
    if key is not None:
        verify_file(run, key)
    [bundle] = bundles_of([run], workspace)
    typer.echo(f"{bundle.name}: http://{host}:{port}/docs (Ctrl-C stops)", err=True)
    limits = ServiceLimits(body=body * 1024**2, at_once=at_once)
    run_service(bundle, host=host, port=port, key=secret, limits=limits)


def report(
    runs: RunNames,
    output: Annotated[
        str, typer.Option("--output", "-o", help="An .html file; - for standard output.")
    ] = "report.html",
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Comparison report",
    origin: OriginName = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML file with the charts of a comparison, to be mailed and opened offline."""
    bundles = bundles_of(runs, workspace)
    comparison = audited(compare_runs([bundle.run for bundle in bundles]), runs, workspace)
    origin = origin_of(runs, workspace, origin)
    found = recommend(comparison, origin=origin)
    chosen = next((bundle for bundle in bundles if bundle.name == found.model), None)
    data = report_html(comparison, chosen, title=title, origin=origin).encode()
    write_output(data, output)
    value = {"output": output, "bytes": len(data), "recommendation": plain(found)}
    print_result(value, f"{output}\n{found.sentence}", as_json, beside=output)


def track(
    run: RunName,
    experiment: Annotated[str | None, typer.Option(help="Name of the experiment on the server.")] = None,
    register: Annotated[
        str | None, typer.Option(help="Register the model under this name, as its next version.")
    ] = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Log a run to the MLflow server in MLFLOW_TRACKING_URI: parameters, figures, curve, card, bundle, served model."""
    [bundle] = bundles_of([run], workspace)
    token = log_to_mlflow(bundle, experiment=experiment, register=register)
    print_result({"run_id": token, "name": bundle.name}, token, as_json)


def _of_stored(run: str, words: ExportTexts, form: str, folder: Path | None) -> ExportedFile:
    """Export a stored run. Texts that are not given are those of its last export."""
    with opened_model(run, folder) as model:
        given = {name: text for name, text in asdict(words).items() if text != ""}
        return EXPORT_FORMS[form].make(replace(model, words=replace(model.words, **given)))


def _of_file(run: str, words: ExportTexts, form: str, rows: pd.DataFrame | None) -> ExportedFile:
    bundle = with_texts(load_bundle(run), words)
    bundle = bundle if words.keep_rows else bundle.without_rows()
    if form == "bundle":
        return ExportedFile(bundle_bytes(bundle))
    if form in ("card_md", "card_html"):
        return ExportedFile((model_card if form == "card_md" else model_card_html)(bundle).encode())
    if form == "rules" and bundle.label_rules is not None:
        return ExportedFile(bundle.label_rules.rules.rules.to_json().encode())
    if form == "profile":
        return ExportedFile(dump_json(reference_profile(bundle), indent=1).encode())
    if form == "onnx":
        return _onnx(bundle, rows)
    if form == "folder":
        return _folder(bundle, rows)
    raise BundleError(
        f"A bundle alone cannot become {form!r}: that needs the table or the other runs. "
        "Give the id of a run in a workspace, or use `spu report`."
    )


def _onnx(bundle: Bundle, rows: pd.DataFrame | None) -> ExportedFile:
    if rows is None:
        raise BundleError(
            "An ONNX model is compared with the native one on real rows before it is written; name them with "
            "--rows FILE."
        )
    made = export_onnx(bundle, rows)
    return ExportedFile(made.data, made.summary)


def _folder(bundle: Bundle, rows: pd.DataFrame | None) -> ExportedFile:
    with tempfile.TemporaryDirectory() as place:
        return ExportedFile(zipped(write_folder(bundle, Path(place) / "folder", rows)))


def _write(made: ExportedFile, form: str, output: str, force: bool) -> None:
    """Write the file. A folder is unpacked, unless the output is a zip file."""
    if form != "folder" or output == STANDARD or output.endswith(".zip"):
        write_output(made.data, output)
        return
    target = Path(output)
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not force)):
        raise BundleError(f"{target.name!r} is not an empty folder; choose a new name, or overwrite it with --force.")
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        archive.extractall(target)
