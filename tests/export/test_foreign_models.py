"""Models from elsewhere: tried on every way in, read like their library reads them, scoring in a process apart."""

from __future__ import annotations

import errno
import gzip
import io
import json
import re
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.engines.jobs.score import score_foreign, scores_at_once
from spu_core.errors import BundleError
from spu_core.export import Bundle, Scoring, bundle_storage, load_bundle, publishing, trial_child
from spu_core.export.archive import MANIFEST, digest
from spu_core.export.bundle_storage import score_in_child, try_in_child
from spu_core.export.model_checks import _check_xgboost, parse_text
from tests.export.examples import example, make_frame
from tests.export.hostile import good, members_of, resealed

# One more tree that changes no score; its second leaf is for values that no honest row holds.
TREE = {
    "num_leaves": "2",
    "num_cat": "0",
    "split_feature": "0",
    "threshold": "1e30",
    "decision_type": "10",
    "left_child": "-1",
    "right_child": "-2",
    "leaf_value": "0 0",
    "is_linear": "0",
    "shrinkage": "1",
}
LOST = {"right_child": "99999999"}


def lines_of(tree: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in tree.items())


def text_with(body: str, size: int | None = None) -> str:
    """The good model with one more tree of this body, announced with its own size or another one."""
    text = members_of(good())["model/0000.txt"].decode()
    number = text.count("\nTree=")
    block = f"Tree={number}\n{body}\n\n"
    longer = text.replace("end of trees\n", f"{block}end of trees\n", 1)
    return re.sub(r"(tree_sizes=.*)", rf"\g<1> {len(block) if size is None else size}", longer, count=1)


def head_with(line: str) -> str:
    """The good model with one more line in its head."""
    return members_of(good())["model/0000.txt"].decode().replace("\ntree_sizes=", f"\n{line}\ntree_sizes=", 1)


def for_objective(objective: str) -> str:
    text = members_of(good())["model/0000.txt"].decode()
    return text.replace("objective=cross_entropy\n", f"objective={objective}\n", 1)


def test_one_more_tree_that_is_whole_is_read():
    before = parse_text(members_of(good())["model/0000.txt"].decode())
    after = parse_text(text_with(lines_of(TREE)))

    assert len(after.trees) == len(before.trees) + 1
    assert after.trees[-1].right.tolist() == [-2]


@pytest.mark.parametrize(
    "text",
    [
        text_with(lines_of({**TREE, **LOST}) + "\nright_child=-2\n"),
        text_with(lines_of({**TREE, **LOST}) + "right_child=-2\n"),
        text_with(lines_of({**TREE, "right_child": "1.0"})),
        text_with(lines_of({**TREE, "right_child": "-0_2"})),
        text_with(lines_of({**TREE, "right_child": "-٢"})),
        text_with(lines_of({**{f"x{line}": "0" for line in range(20)}, **TREE})),
        text_with(lines_of(TREE), size=20),
        text_with(f"{lines_of(TREE)}\rTree=8\n{lines_of({**TREE, **LOST})}"),
        text_with(lines_of({**TREE, "num_cat": "1", "cat_boundaries": "0 1 2", "cat_threshold": "1 1"})),
        text_with(lines_of({**TREE, "num_leaves": "5000"})),
        text_with(lines_of({**TREE, "split_feature": "0 0", "threshold": "1 1", "decision_type": "10 10"})),
        text_with(lines_of(TREE)).replace("end of trees\n", "Tree=9\nend of trees\n", 1),
        head_with("=num_tree_per_iteration=2"),
        head_with("=num_class=3"),
        head_with("=objective=regression"),
        for_objective("multiclass num_class:3"),
        for_objective("regression"),
    ],
    ids=["after a blank line", "twice", "a fraction", "underscore", "digits of a script", "many fields", "another size",
         "carriage return", "more sets than announced", "too many leaves", "more splits than leaves",
         "a tree after the last", "hidden trees per round", "hidden classes", "hidden objective",
         "outputs of the objective", "no probability"],
)  # fmt: skip
def test_a_text_that_its_library_would_read_otherwise_is_refused(text):
    """Such a model passed the trial, and crashed whoever scored a row with a large value."""
    with pytest.raises(BundleError, match="LightGBM model"):
        load_bundle(resealed({**members_of(good()), "model/0000.txt": text.encode()}))


def test_settings_beyond_their_law_are_refused():
    """A million threads would end the process, but only with more rows than a trial has."""
    members = members_of(good())
    model = json.loads(members[MANIFEST])["model"]
    model["description"]["settings"]["threads"] = 1_000_000
    data = resealed(members, model=model)

    with pytest.raises(BundleError, match="threads"):
        load_bundle(data, known_hash=digest(data))


def test_an_xgboost_tree_that_writes_elsewhere_than_to_the_score_is_refused():
    booster = example("xgboost").fitted.model.booster_
    model = json.loads(bytes(booster.save_raw("json")))
    _check_xgboost(model, 4)
    model["learner"]["gradient_booster"]["model"]["tree_info"][0] = 3

    with pytest.raises(BundleError, match="adds to another output"):
        _check_xgboost(model, 4)


@pytest.mark.parametrize("first", [-100_000, 1], ids=["before the first tree", "after it"])
def test_an_xgboost_model_whose_rounds_begin_elsewhere_than_at_its_trees_is_refused(first):
    """A round that begins before the first tree would be read from memory that is none of the model's."""
    model = json.loads(bytes(example("xgboost").fitted.model.booster_.save_raw("json")))
    model["learner"]["gradient_booster"]["model"]["iteration_indptr"][0] = first

    with pytest.raises(BundleError, match="does not have one tree per round"):
        _check_xgboost(model, 4)


@pytest.fixture
def here_it_fails(monkeypatch):
    """A model that may not score in this process; a child has the true one."""
    monkeypatch.setattr(Bundle, "score_features", lambda *_: pytest.fail("the model scored in this process"))


def test_a_foreign_model_scores_in_a_process_apart(here_it_fails, monkeypatch):
    frame = make_frame(60, seed=5)
    scored = score_foreign(good(), io.BytesIO(frame.to_csv(index=False).encode()), Scoring(flag_by="share", reasons=1))

    monkeypatch.undo()
    assert [each.name for each in scored.path.parent.iterdir()] == ["scored.parquet"]
    expected = example("lightgbm").bundle.score(frame, Scoring(flag_by="share", reasons=1))
    pd.testing.assert_frame_equal(pd.read_parquet(scored.path), expected.frame)
    assert scored.report.notes == expected.report.notes


def test_a_file_that_a_foreign_model_cannot_score_is_refused_in_the_words_of_the_child(tmp_path):
    source, target = tmp_path / "other.csv", tmp_path / "scored.parquet"
    source.write_text("a,b\n1,2\n")

    with pytest.raises(BundleError, match="The table lacks"):
        score_in_child(good(), source, target, Scoring())
    assert not target.exists()


def test_a_full_disk_is_no_fault_of_the_model(monkeypatch):
    def on_a_full_disk(*_, **__):
        raise OSError(errno.ENOSPC, "Cannot write to '/srv/secret/scores'")

    monkeypatch.setattr(Bundle, "score_file", on_a_full_disk)

    assert trial_child._answer(good(), ['{"source": "a.csv", "target": "b.csv", "scoring": {}}']) == {
        "problem": "The rows or their scores could not be read or written here: No space left on device."
    }


def test_scores_that_cannot_be_written_are_told_without_their_place(tmp_path):
    source = tmp_path / "new.csv"
    make_frame(30).to_csv(source, index=False)

    with pytest.raises(BundleError) as refused:
        score_in_child(good(), source, tmp_path / "missing" / "scored.parquet", Scoring())
    assert str(refused.value) == "'scored.parquet' cannot be written: No such file or directory."


def test_only_two_foreign_models_are_at_work_at_a_time(monkeypatch):
    """Each may take gigabytes: a third is refused in words, and comes in once one of the two has ended."""
    started, end = threading.Semaphore(0), threading.Event()

    def work(command, **_):
        started.release()
        assert end.wait(600)
        return subprocess.CompletedProcess(command, 0, stdout=bundle_storage.MARK + b"{}")

    monkeypatch.setattr(bundle_storage, "PATIENCE", 0.01)
    monkeypatch.setattr(bundle_storage.subprocess, "run", work)
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(try_in_child, b"") for _ in range(2)]
        try:
            assert all(started.acquire(timeout=600) for _ in both)
            with pytest.raises(BundleError, match="Two models from elsewhere are at work already"):
                try_in_child(b"")
        finally:
            end.set()
        assert [each.result(600) for each in both] == [None, None]
    try_in_child(b"")


def test_small_files_are_scored_at_once_only_by_models_that_were_trained_here():
    trained, brought = types.SimpleNamespace(is_trained_here=True), types.SimpleNamespace(is_trained_here=False)

    small, large = io.BytesIO(b"a,b\n1,2\n"), io.BytesIO(b"a,b\n" + b"1,2\n" * 2_000_000)

    assert scores_at_once(trained, small)
    assert not scores_at_once(trained, large)
    assert not scores_at_once(trained, io.BytesIO(gzip.compress(b"a,b\n1,2\n")))
    assert not scores_at_once(brought, small)


@pytest.fixture
def bundle_file(tmp_path, monkeypatch):
    """A foreign bundle, which its trial refuses."""

    def refuse(data):
        raise BundleError("It was tried.")

    monkeypatch.setattr("spu_core.export.bundle_storage.try_in_child", refuse)
    make_frame(30).to_csv(tmp_path / "new.csv", index=False)
    path = tmp_path / "foreign.spu"
    path.write_bytes(good())
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("score", "{bundle}", "{rows}", "-o", "-"),
        ("export", "{bundle}", "--as", "bundle", "-o", "-"),
        ("compare", "{bundle}"),
        ("report", "{bundle}", "-o", "-"),
        ("track", "{bundle}"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_tries_a_bundle_before_it_is_used(bundle_file, words):
    rows = bundle_file.with_name("new.csv")
    result = CliRunner().invoke(cli.app, [word.format(bundle=bundle_file, rows=rows) for word in words])

    assert isinstance(result.exception, BundleError)
    assert str(result.exception) == "It was tried."


def test_python_and_mlflow_try_a_bundle_before_it_is_used(bundle_file, monkeypatch):
    for source in (bundle_file, str(bundle_file), good()):
        with pytest.raises(BundleError, match="It was tried"):
            load_bundle(source)

    served = []
    monkeypatch.setitem(sys.modules, "mlflow", types.ModuleType("mlflow"))
    for name, parts in (("models", {"set_model": served.append}), ("pyfunc", {"PythonModel": object})):
        module = types.ModuleType(f"mlflow.{name}")
        vars(module).update(parts)
        monkeypatch.setitem(sys.modules, f"mlflow.{name}", module)
    exec(compile(publishing._SERVED_MODEL, "served_model.py", "exec"), {"__name__": "served"})
    with pytest.raises(BundleError, match="It was tried"):
        served[0].load_context(types.SimpleNamespace(artifacts={"bundle": str(bundle_file)}))
