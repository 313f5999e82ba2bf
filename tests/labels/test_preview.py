"""The preview of an unsaved rule must say what saving it would give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import RuleError, SoftLabelError
from spu_core.labels import COMBINERS, assign_soft_labels, audit_soft_labels, suggest_belief
from spu_core.labels.preview import MOST_VALUES, preview_base
from spu_core.rules import AnyOf, Compare, Ramp, Rule, RuleSet
from spu_core.tables import Table


def some_table(rows: int = 3_000) -> Table:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, rows).astype(float)
    age[rng.random(rows) < 0.05] = np.nan
    frame = pd.DataFrame(
        {
            "age": age,
            "gain": rng.exponential(100, rows).round(2),
            "city": pd.Categorical(rng.choice(["Bern", "Basel", "<b>Chur</b>"], rows)),
            "vip": rng.random(rows) < 0.3,
            "label": (rng.random(rows) < 0.05).astype(int),
        }
    )
    return Table.from_frame(frame)


TABLE = some_table()
FLAT = RuleSet(
    (
        Rule("older", 0.4, Compare("age", ">", 60)),
        Rule("clean", 0.0, Compare("city", "=", "Basel")),
        Rule("vip", 0.7, Compare("vip", "=", True)),
    )
)
GRADED = RuleSet((Rule("gain", Ramp(column="gain", start=0, end=900)), *FLAT.rules))
DRAFTS = {
    "flat": Rule("draft", 0.55, Compare("gain", "between", [50, 200])),
    "ramp": Rule("draft", Ramp(column="age", start=20, end=80, at_end=0.9), Compare("gain", ">", 30)),
    "levels": Rule("draft", 0.3, AnyOf((Compare("city", "in", ["Bern"]), ~Compare("vip", "=", True)))),
    "never": Rule("draft", 0.3, Compare("age", ">", 1_000)),
}


def soft_labels_with(rules: RuleSet):
    return assign_soft_labels(rules.fit(TABLE).apply(TABLE.frame), TABLE.is_labeled, rules.combine, rules.floor)


@pytest.mark.parametrize("combine", COMBINERS)
@pytest.mark.parametrize("saved", [FLAT, GRADED, RuleSet()], ids=["flat", "graded", "no rules"])
@pytest.mark.parametrize("draft", DRAFTS)
def test_the_preview_is_what_saving_would_give(combine, saved, draft):
    saved = saved.combined(combine, 0.02)
    audit = audit_soft_labels(soft_labels_with(saved.add(DRAFTS[draft])))

    preview = preview_base(TABLE, saved).preview(DRAFTS[draft])

    # Ramps are counted on a grid; everything else is exact.
    is_exact = draft != "ramp" and saved.rules[:1] != GRADED.rules[:1]
    close = 1e-12 if is_exact else 1e-3
    assert preview.mean == pytest.approx(audit.mean, abs=close)
    assert preview.ceiling == pytest.approx(audit.ceiling, abs=close)
    assert preview.bin_rows.sum() == len(TABLE)
    if is_exact:
        assert preview.bin_rows.tolist() == audit.bin_rows.tolist()
        assert preview.bin_labeled.tolist() == audit.bin_labeled.tolist()


@pytest.mark.parametrize("combine", COMBINERS)
@pytest.mark.parametrize("edited", ["older", "clean", "vip"])
def test_an_edited_rule_is_previewed_in_its_place(combine, edited):
    saved = FLAT.combined(combine)
    audit = audit_soft_labels(soft_labels_with(saved.replace(edited, DRAFTS["flat"])))

    preview = preview_base(TABLE, saved, instead_of=edited).preview(DRAFTS["flat"])

    assert preview.mean == pytest.approx(audit.mean)
    assert preview.ceiling == pytest.approx(audit.ceiling)


def test_a_rule_that_is_off_keeps_its_place_in_the_order():
    saved = FLAT.switch("older", False).combined("first_match")
    audit = audit_soft_labels(soft_labels_with(saved.replace("older", DRAFTS["flat"])))

    assert preview_base(TABLE, saved, instead_of="older").preview(DRAFTS["flat"]).mean == pytest.approx(audit.mean)


def test_without_a_draft_the_preview_shows_the_saved_rules():
    audit = audit_soft_labels(soft_labels_with(FLAT))

    preview = preview_base(TABLE, FLAT).preview(None)

    assert (preview.rows, preview.mean, preview.ceiling) == (0, pytest.approx(audit.mean), pytest.approx(audit.ceiling))


def test_rows_lift_and_suggestion_are_those_of_the_rule_matrix():
    draft = DRAFTS["levels"]
    matrix = RuleSet((draft,)).fit(TABLE).apply(TABLE.frame)
    line = matrix.summary(TABLE.is_labeled).loc["draft"]

    preview = preview_base(TABLE, FLAT).preview(draft, prior=0.1)

    assert (preview.rows, preview.labeled_rows) == (line["rows"], line["labeled_rows"])
    assert preview.share == line["coverage"]
    limits = (line["lift"], line["lift_low"], line["lift_high"])
    assert (preview.lift, preview.lift_low, preview.lift_high) == limits
    expected = suggest_belief(matrix.fired[:, 0], TABLE.is_labeled, prior=0.1, belief=0.3, rule="draft")
    assert preview.suggestion == expected


def test_many_distinct_beliefs_are_rounded_and_stay_close():
    frame = pd.DataFrame({"x": np.linspace(0, 1, 3 * MOST_VALUES), "label": np.arange(3 * MOST_VALUES) % 50 == 0})
    table, saved = Table.from_frame(frame), RuleSet((Rule("x", Ramp(column="x", start=0, end=1)),))
    base = preview_base(table, saved)
    audit = audit_soft_labels(assign_soft_labels(saved.fit(table).apply(frame), table.is_labeled))

    assert base.value.size < 2 * MOST_VALUES
    assert base.preview(None).ceiling == pytest.approx(audit.ceiling, abs=5e-4)


def test_a_draft_that_cannot_be_applied_is_refused_in_words():
    base = preview_base(TABLE, FLAT)

    with pytest.raises(SoftLabelError, match="uses column 'agee', which is not in the data"):
        base.preview(Rule("typo", 0.5, Compare("agee", ">", 3)))
    with pytest.raises(RuleError, match="they have no order"):
        base.preview(Rule("order", 0.5, Compare("city", ">", "A")))
