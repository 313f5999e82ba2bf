"""Equal studies give equal bytes: trained and exported twice, in fresh processes and folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.commands.test_commands import RULES

FILE = "id,amount,age,fraud\n" + "".join(f"{row},{row % 13},{row % 7},{int(row % 11 == 0)}\n" for row in range(120))
SCRIPT = """
import hashlib, json, sys
from pathlib import Path
from spu_core import RuleSet, read_table
from spu_core.engines.export_files import zipped
from spu_core.engines.study import Study
from spu_core.export import export_onnx, save_bundle, write_folder
from spu_core.training import Candidate, TrainConfig, TrainPlan

table = read_table("sales.csv")
candidates = (Candidate("fused", {"rounds": 3, "folds": 2}), Candidate("logistic"))
plan = TrainPlan(TrainConfig(folds=2, threads=1), candidates)
found = {}
for run, bundle in Study.of(table, RuleSet.from_json(Path("rules.json").read_text()), plan).run(table):
    found[f"{run.name}.spu"] = hashlib.sha256(save_bundle(bundle, f"{run.name}.spu").read_bytes()).hexdigest()
    found[f"{run.name}.onnx"] = hashlib.sha256(export_onnx(bundle, table.frame).data).hexdigest()
    found[f"{run.name}.zip"] = hashlib.sha256(zipped(write_folder(bundle, run.name, table.frame))).hexdigest()
print(json.dumps(found))
"""


def test_a_study_trained_and_exported_in_two_fresh_processes_gives_the_same_sha256(tmp_path):
    started = []
    for name in ("first", "second folder"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "sales.csv").write_text(FILE)
        (folder / "rules.json").write_text(RULES)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment["PYTHONHASHSEED"] = str(len(name))
        started.append(
            subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=folder, env=environment, stdout=subprocess.PIPE)
        )
    first, second = (json.loads(each.communicate(timeout=600)[0]) for each in started)

    assert sorted(first) == ["fused.onnx", "fused.spu", "fused.zip", "logistic.onnx", "logistic.spu", "logistic.zip"]
    assert first == second
