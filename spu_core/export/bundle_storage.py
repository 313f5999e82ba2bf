"""Save and load bundles: one `.spu` file each, checked before a native library reads any of its bytes.

A bundle from elsewhere is loaded, and scores, in a child process with limits on memory and time, so that a crash or an
endless loop ends the child only. The child is not a sandbox: only files that passed all other checks get this far.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spu_core.checks import check_kind
from spu_core.codec import Hook, decode, encode
from spu_core.errors import BundleError
from spu_core.export.archive import BundleLimits, digest, is_sealed, pack_archive, read_file, unpack_archive, write_file
from spu_core.export.bundle import Bundle
from spu_core.export.bundle_parts import (
    FlagPoint,
    LabelRules,
    ModelDetails,
    RunFacts,
    SelfTest,
    check_rows,
)
from spu_core.export.drift import TrainingProfile
from spu_core.export.manifest import (
    Manifest,
    PackedModel,
    open_manifest,
    pack_blobs,
    read_json,
    reading,
    seal_members,
    to_json,
    unpack_blobs,
)
from spu_core.export.model_checks import check_loaded, check_native, check_parts
from spu_core.export.score_report import ScoreReport, Scoring
from spu_core.models import FittedEncoder, model_from_state
from spu_core.rules import FittedRules
from spu_core.training import Candidate, FittedCandidate, Run

MEMORY = 8 * 1024**3
SECONDS = 60
SCORING_SECONDS = 600
# This process may have two children at a time; seconds to wait for one of them to end.
PATIENCE = 10
_turns = threading.BoundedSemaphore(2)
MARK = b"\x00spu-trial\x00"


def try_in_child(data: bytes, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
    """Load the bundle and score its test rows in a child process; raise what went wrong there."""
    _in_child(data, [], seconds, memory)


def score_in_child(data: bytes, source: Path, target: Path, scoring: Scoring) -> ScoreReport:
    """Score a file with a bundle from elsewhere without loading its model in this process.

    `try_in_child` scores only the test rows of the bundle; a model can be made to crash on other values.
    """
    asked = {"source": str(source), "target": str(target), "scoring": asdict(scoring)}
    return ScoreReport.from_dict(_in_child(data, [json.dumps(asked)], SCORING_SECONDS, MEMORY)["report"])


def _in_child(data: bytes, asked: list[str], seconds: int, memory: int) -> dict[str, Any]:
    """The report of the child process; an error where it could not load or use the bundle."""
    command = [sys.executable, "-m", "spu_core.export.trial_child", str(seconds), str(memory), *asked]
    try:
        with _turn():
            done = subprocess.run(
                command, input=data, capture_output=True, timeout=2 * seconds, env=_environment(), check=False
            )
    except subprocess.TimeoutExpired:
        raise _refused(f"did not finish within {2 * seconds} seconds") from None
    _, mark, text = done.stdout.rpartition(MARK)
    if done.returncode != 0 or not mark:
        raise _refused(_ending(done.returncode))
    found: dict[str, Any] = json.loads(text)
    if "problem" in found:
        raise BundleError(str(found["problem"]))
    return found


@contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(timeout=PATIENCE):
        raise BundleError("Two models from elsewhere are at work already; try again in a minute.")
    try:
        yield
    finally:
        _turns.release()


def _environment() -> dict[str, str]:
    """The child finds the same packages; it has few threads, since idle ones count towards its memory limit."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path) or os.curdir,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "2",
    }


def _ending(code: int) -> str:
    if code < 0:
        return f"crashed its library (signal {-code})"
    return f"ended with code {code}"


def _refused(what: str) -> BundleError:
    return BundleError(f"The bundle's model {what} in a process apart, so it was refused; ask for another export.")


def save_bundle(run: Run | Bundle, path: str | os.PathLike[str], **parts: Any) -> Path:
    """Train a run's candidate again on all rows and write the result as one `.spu` file.

    The training takes about as long as one fold of the run, or longer; pass `fitted=run.fit_all()` if it was done
    before. A `Bundle` is written as it is. The file is written completely or not at all.

    Parameters
    ----------
    run : Run or Bundle
        A finished run, or a bundle.
    path : str or path
        The file to write; an existing file is replaced.
    **parts
        For a run, the arguments of `Bundle.of`: `label_rules` (the rules that made the soft labels), `details`
        (purpose, contact and other texts), `point` (where to flag), `fitted` (the result of an earlier
        `run.fit_all()`) and `keep_rows` (whether scores and labels of the training rows are stored).

    Returns
    -------
    Path
        The path of the file. Equal runs give equal bytes.

    Raises
    ------
    BundleError
        If the rules are not those of the run, the file cannot be written, or a bundle is given with `parts`.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from spu_core import Rule, RuleSet, Table, cross_fit, soft_labels_for
    >>> from spu_core.rules import Compare
    >>> frame = pd.DataFrame({"amount": range(40), "age": [20, 50] * 20, "label": [0] * 20 + [0, 1] * 10})
    >>> table = Table.from_frame(frame, roles={"label": "label"})
    >>> rules = RuleSet((Rule("Large amount", 0.3, Compare("amount", ">", 30)),))
    >>> [run] = cross_fit(table, soft_labels_for(table, rules), ["logistic"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_bundle(run, f"{folder}/model.spu").name
    'model.spu'
    """
    return write_file(bundle_bytes(run, **parts), path)


def bundle_bytes(run: Run | Bundle, **parts: Any) -> bytes:
    """The bytes of the file that `save_bundle` writes; a run is trained again on all rows for it."""
    if isinstance(run, Bundle) and parts:
        raise BundleError("A bundle has its parts already; change it with with_point, with_details or without_rows.")
    return pack_archive(_members(run if isinstance(run, Bundle) else Bundle.of(run, **parts)))


def load_bundle(
    source: str | os.PathLike[str] | bytes, *, known_hash: str | None = None, limits: BundleLimits | None = None
) -> Bundle:
    """Read a bundle. Nothing in it is ever run as code.

    Size, names, hashes and schema are checked first. Then the model is loaded in a child process with limits on memory
    and time, since a damaged model can crash the library that reads it.

    Parameters
    ----------
    source : str, path or bytes
        The file, or its content.
    known_hash : str, optional
        The SHA-256 of a file that this installation has written itself. It must match; the child process is skipped.
    limits : BundleLimits, optional
        The largest sizes that are accepted.

    Returns
    -------
    Bundle
        The bundle, ready to score.

    Raises
    ------
    BundleError
        If the file is not a bundle, was changed, is too large, or its model cannot be used here.

    Examples
    --------
    >>> load_bundle(b"")
    Traceback (most recent call last):
    spu_core.errors.BundleError: The file is empty (0 bytes), not a bundle; copy or export it again.
    """
    limits = limits or BundleLimits()
    kinds = (str, os.PathLike, bytes, bytearray, memoryview)
    check_kind(source, kinds, "load_bundle takes a path or bytes", "use save_bundle(run, path) first", BundleError)
    data = bytes(source) if isinstance(source, bytes | bytearray | memoryview) else read_file(source, limits)
    if known_hash is not None and digest(data) != known_hash:
        raise BundleError("The bundle is not the file that was stored: its SHA-256 differs. Restore it from a backup.")
    members, manifest = open_members(data, limits)
    if known_hash is None:
        _read_parts(members, manifest)
        try_in_child(data)
    return bundle_of(members, manifest)


def open_members(data: bytes, limits: BundleLimits) -> tuple[dict[str, bytes], Manifest]:
    """(members, manifest) of a bundle, after checking that no byte was changed."""
    members = unpack_archive(data, limits)
    manifest = open_manifest(members)
    if not is_sealed(data):
        raise BundleError(
            "The bundle's zip directory was changed after the export, although its members are whole; "
            "copy the original file again."
        )
    return members, manifest


def bundle_of(members: Mapping[str, bytes], manifest: Manifest, *, is_foreign: bool = False) -> Bundle:
    """The bundle of checked members; its model is loaded by its library.

    Where it comes from elsewhere, XGBoost's trees are checked before anything is scored with them.
    """
    parts = _read_parts(members, manifest)
    stored = manifest.model
    with reading("model"):
        model = model_from_state((dict(stored.description), unpack_blobs(stored.blobs, members)))
        check_parts(model, len(parts["encoder"].columns))
        if is_foreign:
            check_loaded(model)
    fitted = FittedCandidate(
        candidate=parts.pop("candidate"),
        encoder=parts.pop("encoder"),
        model=model,
        settings=dict(stored.settings),
        rule_columns=stored.rule_columns,
        tuning=stored.tuning,
    )
    bundle = Bundle(fitted=fitted, **parts)
    with reading("model"):
        bundle.check_probe()
    return bundle


def _members(bundle: Bundle) -> dict[str, bytes]:
    fitted = bundle.fitted
    description, blobs = fitted.model.to_state()
    model_entries, model_members = pack_blobs(blobs, "model")
    row_entries, row_members = pack_blobs(bundle.rows, "rows")
    parts = {
        "run": bundle.facts.to_dict(),
        "candidate": fitted.candidate.to_dict(),
        "model": {
            "description": encode(description, "The description of the model", BundleError, exact=True),
            "blobs": model_entries,
            "settings": encode(fitted.settings),
            "rule_columns": list(fitted.rule_columns),
            "tuning": encode(fitted.tuning),
        },
        "soft_labels": None,
        "flag": bundle.point.to_dict(),
        "passport": bundle.details.to_dict(),
        "rows": row_entries,
    }
    members = {
        "encoder.json": to_json(fitted.encoder.to_dict()),
        "profile.json": to_json(bundle.profile.to_dict()),
        **model_members,
        **row_members,
    }
    if bundle.label_rules is not None:
        parts["soft_labels"] = {"combine": bundle.label_rules.combine, "floor": float(bundle.label_rules.floor)}
        members["rules.json"] = bundle.label_rules.rules.to_json().encode()
    if bundle.self_test is not None:
        members["self_test.json"] = to_json(bundle.self_test.to_dict())
    return seal_members(parts, members)


def _read_parts(members: Mapping[str, bytes], manifest: Manifest) -> dict[str, Any]:
    """Everything but the model, as values; the model is checked as far as possible without its library."""
    found: dict[str, Any] = {}
    _check_model_part(manifest.model, members)
    with reading("encoder.json"):
        found["encoder"] = FittedEncoder.from_dict(read_json(members["encoder.json"], "encoder.json"))
    with reading("profile.json"):
        found["profile"] = TrainingProfile.from_dict(read_json(members["profile.json"], "profile.json"))
    with reading("record of the run"):
        found["candidate"] = Candidate.from_dict(manifest.candidate)
        found["facts"] = RunFacts.from_dict(manifest.run)
    with reading("operating point"):
        found["point"] = FlagPoint.from_dict(manifest.flag)
    with reading("passport"):
        found["details"] = ModelDetails.from_dict(manifest.passport)
    with reading("stored rows"):
        found["rows"] = check_rows(unpack_blobs(manifest.rows, members), found["facts"].rows)
    found["label_rules"] = _read_label_rules(members, manifest)
    if "self_test.json" in members:
        with reading("self_test.json"):
            found["self_test"] = SelfTest.from_dict(read_json(members["self_test.json"], "self_test.json"))
    if [column.name for column in found["profile"].columns] != list(found["encoder"].names):
        raise BundleError("The bundle's profile.json and encoder.json describe different columns.")
    return found


def _read_label_rules(members: Mapping[str, bytes], manifest: Manifest) -> LabelRules | None:
    part = manifest.soft_labels
    if part is None:
        return None
    with reading("rules.json"):
        hooks: dict[Any, Hook] = {FittedRules: lambda reader, data, place: FittedRules.from_json(data)}
        return decode(LabelRules, {**part, "rules": members["rules.json"]}, "soft_labels", BundleError, hooks=hooks)


def _check_model_part(part: PackedModel, members: Mapping[str, bytes]) -> None:
    with reading("model"):
        unpack_blobs(part.blobs, members)
        check_native(part, members)
