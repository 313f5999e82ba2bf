"""Folders from the command line: convert, label, plan and train more rows than memory."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core.cli import app
from spu_core.errors import SpuError
from spu_core.labels import soft_labels_for
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import open_folder, read_table
from tests.export.examples import known
from tests.tables.folders import mixed_frame

RULES = RuleSet((Rule("rich", 0.4, Compare("amount", ">", 200)), Rule("city", 0.2, Compare("city", "=", "Chur"))))


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    mixed_frame(300).to_csv(folder / "rows.csv", index=False)
    (folder / "rules.json").write_text(RULES.to_json())
    run("convert", folder / "rows.csv", "-o", folder / "rows")
    return folder


def test_a_converted_folder_is_the_file_and_is_profiled_like_it(place):
    found = json.loads(run("profile", place / "rows", "--json").stdout)

    assert open_folder(place / "rows").fingerprint == read_table(place / "rows.csv").fingerprint
    assert found["labeled"] == json.loads(run("profile", place / "rows.csv", "--json").stdout)["labeled"]


def test_a_folder_is_labelled_as_its_file_is(place):
    for source, target in (("rows", "ours.parquet"), ("rows.csv", "theirs.parquet")):
        run("label", place / source, "-o", place / target, "--rules", place / "rules.json")

    ours, theirs = (pd.read_parquet(place / name) for name in ("ours.parquet", "theirs.parquet"))
    assert ours["soft_label"].equals(theirs["soft_label"])
    with pytest.raises(SpuError, match="do not go to standard output"):
        run("label", place / "rows", "-o", "-", "--rules", place / "rules.json")


def test_a_folder_is_planned_and_trained_to_ordinary_bundles(place):
    run("plan", place / "rows", "-o", place / "study.json", "--rules", place / "rules.json", "--folds", 2)
    study = json.loads((place / "study.json").read_text())
    study["plan"]["candidates"] = [{"method": "lightgbm", "settings": {"rounds": 5}}, {"method": "rule_score"}]
    study["refine"] = False
    (place / "study.json").write_text(json.dumps(study))

    result = run("train", place / "study.json", "--data", place / "rows", "-o", place / "runs")

    assert "stay in files and are read in parts" in result.stderr
    bundle = known(place / "runs" / "01-lightgbm.spu")
    folder = open_folder(place / "rows")
    assert bundle.run.evaluation.soft_label.tolist() == soft_labels_for(folder, RULES).value.tolist()
    assert len(bundle.predict(folder.read().frame)) == 300
