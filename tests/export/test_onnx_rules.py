"""The rules of an ONNX model score rows like the native ones: conditions, beliefs, combiners, impossible values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from spu_core.errors import BundleError  # noqa: E402
from spu_core.export import Bundle, LabelRules, export_onnx, onnx_inputs, onnx_rules, standalone  # noqa: E402
from spu_core.rules import Compare, Ramp, ReadyMade, Rule, RuleSet  # noqa: E402
from spu_core.rules.combine import COMBINERS  # noqa: E402
from spu_core.tables import Table  # noqa: E402
from tests.export.examples import example  # noqa: E402
from tests.rules.strategies import CONDITIONS, EVERY_VALUE, ROWS, frame_of  # noqa: E402
from tests.rules.test_fitted import FRAME, RULES  # noqa: E402


def bundle_of(rules: RuleSet, frame: pd.DataFrame, combine: str = "noisy_or", floor: float = 0.0) -> Bundle:
    """A bundle whose score is the rule score."""
    label_rules = LabelRules(rules=rules.fit(Table.from_frame(frame)), combine=combine, floor=floor)
    return replace(example("rule_score").bundle, label_rules=label_rules, self_test=None)


def scores(bundle: Bundle, proof: pd.DataFrame, frame: pd.DataFrame) -> np.ndarray:
    data = export_onnx(bundle, proof).data
    standalone.check_graph(data)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(["score"], onnx_inputs(bundle, frame))[0].ravel()


@settings(max_examples=60)
@given(st.lists(CONDITIONS, min_size=1, max_size=3), ROWS)
def test_any_condition_holds_on_the_same_rows(conditions, rows):
    rows = [*EVERY_VALUE, *rows]
    rules = RuleSet(tuple(Rule(f"r{place}", 0.1 + 0.2 * place, when) for place, when in enumerate(conditions)))
    bundle = bundle_of(rules, frame_of(rows))
    # Inputs have no missing text of their own: the empty text stands for it.
    frame = frame_of([{name: None if value == "" else value for name, value in row.items()} for row in rows])

    np.testing.assert_array_equal(scores(bundle, frame, frame), bundle.predict(frame))


@pytest.mark.parametrize("combine", list(COMBINERS))
def test_every_belief_is_combined_alike(combine):
    bundle = bundle_of(RULES, FRAME, combine, 0.05)
    unseen = FRAME.assign(city="never seen", asked_by="nobody", outcome="odd", amount=1e300)

    for frame in (FRAME, unseen, unseen.assign(amount=-np.inf), FRAME.assign(amount=np.nan, suspicion=np.nan)):
        np.testing.assert_allclose(scores(bundle, FRAME, frame), bundle.predict(frame), rtol=0, atol=1e-12)


def test_a_ramp_that_falls_to_zero_stops_to_count_at_the_same_value():
    """In the mean of the fired rules, a belief of 1e-17 instead of 0 would halve the score."""
    frame = pd.DataFrame({"x": np.linspace(0.0, 1.0, 2001)})
    rules = RuleSet((Rule("falls", Ramp(column="x", start=0.1, end=0.7, at_start=0.9, at_end=0)), Rule("always", 0.6)))
    bundle = bundle_of(rules, frame, "mean_of_fired")

    np.testing.assert_array_equal(scores(bundle, frame, frame), bundle.predict(frame))


def test_a_row_that_the_native_rules_refuse_has_no_score():
    frame = pd.DataFrame({"belief": [0.2, 1.0, np.nan]})
    bundle = bundle_of(RuleSet((Rule("ready", ReadyMade("belief")),)), frame)

    np.testing.assert_array_equal(
        scores(bundle, frame, pd.DataFrame({"belief": [0.2, 1.1, -0.1]})), [0.2, np.nan, np.nan]
    )


def test_impossible_records_of_checks_have_no_score():
    bundle = bundle_of(RuleSet(tuple(rule for rule in RULES if rule.name == "record")), FRAME)
    odd = pd.DataFrame({"checks": [3.0, 3.5, 3.0, 2e9, np.nan], "passes": [1.0, 1.0, 4.0, 1.0, 1.0]})

    assert np.isnan(scores(bundle, FRAME, odd)).tolist() == [False, True, True, True, False]


def test_an_operator_or_combiner_without_a_translation_is_refused_in_words(monkeypatch):
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    bundle = bundle_of(RuleSet((Rule("low", 0.3, Compare("x", "<", 2)),)), frame)
    monkeypatch.setattr(onnx_rules, "_ORDERED", {})
    with pytest.raises(BundleError, match="A rule with '<' on column 'x' cannot become ONNX"):
        export_onnx(bundle, frame)
    monkeypatch.undo()
    monkeypatch.setattr(onnx_rules, "_COMBINERS", {})
    with pytest.raises(BundleError, match="combined by 'noisy_or' cannot become ONNX"):
        export_onnx(bundle, frame)
