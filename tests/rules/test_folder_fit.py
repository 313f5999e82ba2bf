"""Rules fitted on a folder are the rules fitted on the same rows in memory, number for number."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import RuleError
from spu_core.labels import audit_soft_labels, soft_labels_for
from spu_core.rules import CheckRatio, CheckRecord, Compare, Ramp, ReadyMade, Rule, RuleSet
from spu_core.tables import open_folder
from spu_core.tables.profiles import nearest_quantiles
from tests.tables.folders import mixed_frame, write_folder

RNG = np.random.default_rng(5)
FRAME = mixed_frame(150).assign(
    check=RNG.choice(["random", "aim", None], 150, p=[0.5, 0.4, 0.1]),
    outcome=RNG.choice(["fail", "pass", "admit"], 150, p=[0.3, 0.6, 0.1]),
    checks=RNG.integers(0, 6, 150),
    belief=RNG.random(150).round(2),
)
FRAME["passes"] = (FRAME["checks"] * RNG.random(150)).astype(int)
RULES = RuleSet(
    (
        Rule("rich", 0.4, Compare("amount", ">", 200) & ~Compare("plan", "is_missing")),
        Rule("city", 0.2, Compare("city", "in", ["Chur", "Basel"])),
        Rule("old", 0.1, Compare("signed_at", "<", "2024-05-01")),
        Rule("steep", Ramp(column="amount", start=0.3, end=0.95, at_start=0.1, at_end=0.7, scale="quantile")),
        Rule("many", Ramp(column="visits", start=0.0, end=1.0, at_start=0.5, at_end=0.0, scale="quantile")),
        Rule("plain", Ramp(column="x", start=-1, end=2, at_end=0.3)),
        Rule("asked", CheckRatio(rule_column="check", outcome_column="outcome", random_rule="random")),
        Rule("record", CheckRecord(checks_column="checks", passes_column="passes", penalty=0.01)),
        Rule("ready", ReadyMade(column="belief")),
    )
)


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, 150), max_size=3), varied=st.booleans(), rows=st.integers(7, 160))
def test_fitted_rules_of_a_folder_equal_those_of_the_table(tmp_path_factory, cuts, varied, rows):
    folder = open_folder(write_folder(FRAME, tmp_path_factory.mktemp("f") / "f", cuts, varied=varied))
    table = folder.read()

    fitted = RULES.fit(folder)

    assert fitted.to_json() == RULES.fit(table).to_json()
    whole = fitted.apply(table.frame)
    parts = [fitted.apply(frame) for frame in folder.frames(rows=rows)]
    assert np.array_equal(np.concatenate([part.fired for part in parts]), whole.fired)
    assert np.array_equal(np.concatenate([part.belief for part in parts]), whole.belief)


@pytest.mark.parametrize("varied", [False, True])
def test_soft_labels_of_a_folder_equal_those_of_the_table(tmp_path, varied):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [40, 90], varied=varied))

    ours, theirs = soft_labels_for(folder, RULES), soft_labels_for(folder.read(), RULES)

    for name in ("value", "rule_score", "is_labeled"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert (ours.rule_columns, ours.combine, ours.floor) == (theirs.rule_columns, theirs.combine, theirs.floor)


def test_the_audit_of_a_folder_is_the_audit_of_the_table(tmp_path):
    frame = FRAME.assign(label=(FRAME["city"] == "Basel").astype(int))
    folder = open_folder(write_folder(frame, tmp_path / "f", [40, 90]), roles={"label": "label", "city": "ignore"})
    rules = RuleSet((Rule("city", 0.2, Compare("city", "in", ["Chur", "Basel"])),))

    ours = audit_soft_labels(soft_labels_for(folder, rules), prior=0.2)
    theirs = audit_soft_labels(soft_labels_for(folder.read(), rules), prior=0.2)

    assert ours.findings == theirs.findings
    assert "labels_follow_rules" in {finding.code for finding in ours.findings}
    assert (ours.mean, ours.ceiling, ours.unlabeled_mean) == (theirs.mean, theirs.ceiling, theirs.unlabeled_mean)
    assert ours.bin_rows.tolist() == theirs.bin_rows.tolist()


ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0, 2.0])


@settings(max_examples=60)
@given(st.lists(ANY_FLOAT, min_size=1, max_size=60), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_quantiles_are_those_of_numpy_to_the_bit(numbers, shares):
    ordered = np.sort([number for number in numbers if np.isfinite(number)])

    if ordered.size:
        assert np.array_equal(nearest_quantiles(ordered, shares), np.quantile(ordered, shares, method="nearest"))


def test_what_breaks_in_a_late_part_names_the_part(tmp_path):
    frame = pd.DataFrame({"belief": np.r_[np.full(60, 0.5), 1.5], "x": np.arange(61.0)})
    folder = open_folder(write_folder(frame, tmp_path / "f", [60]))

    with pytest.raises(RuleError, match=r"In the part that starts at row 60: Column 'belief' .* holds 1\.5"):
        RuleSet((Rule("ready", ReadyMade(column="belief")),)).fit(folder)


def test_rules_that_do_not_fit_a_folder_are_refused_as_for_a_table(tmp_path):
    folder = open_folder(write_folder(FRAME, tmp_path / "f", [75]))

    for rule, words in (
        (Rule("a", 0.5, Compare("citty", "=", "Bern")), "Did you mean 'city'"),
        (Rule("a", 0.5, Compare("city", "=", "bern")), "Did you mean 'Bern'"),
        (Rule("a", 0.5, Compare("truth", "=", 1)), "which holds the truth"),
        (Rule("a", Ramp(column="city", start=0, end=1)), "must hold numbers but holds texts"),
    ):
        with pytest.raises(RuleError, match=words):
            RuleSet((rule,)).fit(folder)
