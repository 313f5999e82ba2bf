"""Label Studio: tasks and labelling interface out, annotations in its documented JSON format back.

The shape of the export follows https://labelstud.io/guide/task_format (checked by hand, no Label Studio is installed).
"""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from spu_core.errors import SpuError
from spu_core.tables import read_table
from spu_core.trust import Population, plan_audit
from spu_core.trust.audit.verdicts import CONFIG, label_studio_tasks, read_label_studio

ROWS = 40


@pytest.fixture(scope="module")
def plan():
    return plan_audit(Population.of(np.linspace(0, 1, ROWS), np.linspace(0, 1, ROWS), threshold=0.5), 12)


@pytest.fixture(scope="module")
def table():
    lines = [f'{at},"<b>{at} & ""x""</b>",{int(at < 5)}' for at in range(ROWS)]
    read = read_table("\n".join(["price [€],remark,label", *lines]).encode())
    return read.with_roles({"label": "label"})


def exported(plan, answers, completed_by=1):
    """What Label Studio exports: each task with its data and its annotations."""
    tasks = []
    for number, (row, verdict, note) in enumerate(answers, start=1):
        result = [] if verdict is None else [region("verdict", "choices", {"choices": [verdict]})]
        if note:
            result.append(region("note", "textarea", {"text": [note]}))
        annotation = {
            "id": 1000 + number,
            "completed_by": completed_by,
            "result": result,
            "was_cancelled": verdict is None,
            "ground_truth": False,
            "created_at": "2026-03-09T22:16:08.728353Z",
            "updated_at": "2026-03-09T22:16:08.728378Z",
            "lead_time": 4.288,
            "prediction": {},
            "result_count": 0,
            "task": number,
            "parent_prediction": None,
        }
        tasks.append(
            {
                "id": number,
                "annotations": [annotation],
                "file_upload": "tasks.json",
                "drafts": [],
                "predictions": [],
                "data": {"audit": plan.code, "row": row, "cells": {"price [€]": "3"}},
                "meta": {},
                "created_at": "2026-03-09T21:52:49.513742Z",
                "project": 83,
                "comment_count": 0,
            }
        )
    return tasks


def region(name, kind, value):
    return {"value": value, "id": "Dx_aB91ISN", "from_name": name, "to_name": "row", "type": kind, "origin": "manual"}


def test_tasks_show_the_cells_but_neither_label_nor_score(table, plan):
    tasks = json.loads(label_studio_tasks(table, plan))

    assert [task["data"]["row"] for task in tasks] == list(plan.rows)
    first = tasks[0]["data"]
    assert set(first) == {"audit", "row", "cells"}
    assert first["cells"] == {"price [€]": str(first["row"]), "remark": f'<b>{first["row"]} & "x"</b>'}


def test_the_labelling_interface_reads_the_tasks_and_asks_for_the_three_verdicts(table, plan):
    view = ElementTree.fromstring(CONFIG)
    variables = {tag.get("value") for tag in view.iter() if (tag.get("value") or "").startswith("$")}
    task = json.loads(label_studio_tasks(table, plan))[0]

    assert variables == {"$cells"}
    assert "cells" in task["data"]
    assert [choice.get("value") for choice in view.iter("Choice")] == ["positive", "negative", "unsure"]
    names = {tag.get("name") for tag in view.iter() if tag.get("name")}
    assert {tag.get("toName") for tag in view.iter() if tag.get("toName")} <= names


def test_completed_annotations_become_verdicts_and_skipped_tasks_stay_open(plan):
    person = {"id": 1, "email": "ann@example.com", "first_name": "Ann", "last_name": "Lee"}
    answers = [(plan.rows[0], "positive", "clear case"), (plan.rows[1], "unsure", ""), (plan.rows[2], None, "")]
    found = read_label_studio(json.dumps(exported(plan, answers, person)), plan)

    assert [(each.row, each.verdict, each.reviewer, each.note) for each in found.verdicts] == [
        (plan.rows[0], "positive", "ann@example.com", "clear case"),
        (plan.rows[1], "unsure", "ann@example.com", ""),
    ]
    assert found.empty == 1


def test_an_annotation_that_was_skipped_is_no_verdict_whatever_it_holds(plan):
    tasks = exported(plan, [(plan.rows[0], "positive", "")])
    tasks[0]["annotations"][0]["was_cancelled"] = True
    found = read_label_studio(json.dumps(tasks), plan)
    assert (found.verdicts, found.empty) == ((), 1)


def test_two_annotators_of_one_task_are_two_reviewers(plan):
    tasks = exported(plan, [(plan.rows[0], "positive", "")], completed_by=7)
    tasks[0]["annotations"] += exported(plan, [(plan.rows[0], "negative", "")], completed_by=8)[0]["annotations"]
    found = read_label_studio(json.dumps(tasks).encode(), plan)
    assert [(each.reviewer, each.verdict) for each in found.verdicts] == [
        ("Label Studio user 7", "positive"),
        ("Label Studio user 8", "negative"),
    ]


def changed(plan, **changes):
    task = exported(plan, [(plan.rows[0], "positive", "")])[0]
    for name, value in changes.items():
        if name in ("row", "audit"):
            task["data"][name] = value
        elif name == "result":
            task["annotations"][0]["result"] = value
        else:
            task[name] = value
    return json.dumps([task])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"row": 10**6}, "Annotation 1: row 1000000 was not drawn in this audit"),
        ({"row": "3; DROP TABLE"}, "data.row must be a row number"),
        ({"row": True}, "data.row must be a row number"),
        ({"row": None}, "data.row must be a row number"),
        ({"audit": "another"}, "Annotation 1 belongs to audit another"),
        ({"audit": ["x"]}, "data.audit must be text"),
        ({"annotations": {}}, "has no list 'annotations'. Export the project as JSON, not as JSON-MIN"),
        ({"annotations": ["x"]}, "has no list 'result'"),
        ({"data": []}, "has no object 'data'"),
        ({"result": [region("verdict", "choices", {"choices": ["guilty"]})]}, "unknown verdict 'guilty'"),
        ({"result": [region("verdict", "choices", {"choices": ["positive", "negative"]})]}, "2 verdicts in one"),
        ({"result": [region("verdict", "choices", {"choices": [{"a": 1}]})]}, "must have a list of texts 'choices'"),
        ({"result": [region("verdict", "choices", None)]}, "must have a list of texts 'choices'"),
    ],
)
def test_a_hostile_or_foreign_file_is_refused_in_a_sentence(plan, changes, sentence):
    with pytest.raises(SpuError) as problem:
        read_label_studio(changed(plan, **changes), plan)
    assert sentence in str(problem.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"\xff\xfe\x00", "not UTF-8"),
        ("[" * 5000, "nested deeper|not valid JSON"),
        ('{"tasks": []}', "a list of tasks"),
        ("[1]", "Task 1 of the Label Studio file has no object 'data'"),
        ('[{"data": {"row": 1, "row": 2}}]', "has the key 'row' twice"),
        ('[{"data": {"row": NaN}}]', "NaN"),
        ("row,verdict\n1,positive\n", "not valid JSON"),
    ],
)
def test_a_file_that_is_no_export_is_refused_in_a_sentence(plan, text, sentence):
    with pytest.raises(SpuError, match=sentence):
        read_label_studio(text, plan)
