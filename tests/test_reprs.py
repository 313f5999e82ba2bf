"""Results in a shell and a notebook: one short line, and HTML in which no text of the user is markup."""

import numpy as np
import pandas as pd
import pytest

from spu_core.engines.audit_results import AuditResult
from spu_core.export import Bundle
from spu_core.html_table import SHOWN_ROWS, html_table
from spu_core.labels import audit_soft_labels, soft_labels_for
from spu_core.labels.soft_labels import explain_row
from spu_core.metrics import roc_spu
from spu_core.rules import Compare, Rule, RuleMatrix, RuleSet
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, compare_runs, cross_fit, recommend
from spu_core.trust import Population, estimate_audit, plan_audit
from spu_core.trust.audit.checked import combine_audits, judge_scores
from spu_core.trust.audit.verdicts import Verdict

BAD = "<script>alert(1)</script>&\n" + "\U0001f480\x00" * 60
COLUMN = "<img src=x>"
TABLES = (
    "rules",
    "matrix",
    "explanation",
    "run",
    "failed",
    "comparison",
    "recommendation",
    "bundle",
    "row_explanation",
    "soft_label_audit",
    "estimate",
    "report",
    "audit",
)
SHOWN = ("table", "soft_labels", "scored", *TABLES)
LINES = (
    *SHOWN,
    "plan",
    "fitted_rules",
    "score_report",
    "figure",
    "curve",
    "profile",
)


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    x = rng.normal(size=240)
    label = (x + rng.normal(size=240) > 1.2).astype(int)
    frame = pd.DataFrame({COLUMN: x, "age": rng.normal(size=240), "text": BAD, "label": label})
    frame.loc[3, "text"] = "other"
    table = Table.from_frame(frame, name=BAD)
    rules = RuleSet(tuple(Rule(f"<b>rule {n}", 0.4, Compare(COLUMN, ">", 0.01 * n)) for n in range(40)))
    soft = soft_labels_for(table, rules)
    candidates = [
        Candidate("lightgbm", {"rounds": 3, "threads": 1}, name=f"<i>{BAD}"),
        Candidate("logistic", name="<u>b"),
    ]
    runs = cross_fit(table, soft, candidates, TrainConfig(folds=2, threads=1))
    comparison = compare_runs(runs)
    population = Population.of(runs[0].score, soft.value, threshold=0.5, is_known=soft.is_labeled)
    plan = plan_audit(population, 60)
    verdicts = [Verdict(row, "positive" if x[row] > 0.5 else "negative") for row in plan.rows]
    estimate = estimate_audit(population, plan, verdicts)
    bundle = Bundle.of(runs[0], label_rules=rules.fit(table))
    scored = bundle.score(frame)
    return {
        "table": table,
        "rules": rules,
        "soft_labels": soft,
        "matrix": soft.matrix,
        "explanation": explain_row(soft, 0),
        "run": runs[0],
        "failed": type(runs[0])(BAD, runs[0].candidate, runs[0].config, runs[0].evaluation, error=BAD),
        "comparison": comparison,
        "recommendation": recommend(comparison),
        "bundle": bundle,
        "scored": scored,
        "score_report": scored.report,
        "row_explanation": bundle.explain(frame, 3),
        "soft_label_audit": audit_soft_labels(soft),
        "plan": plan,
        "fitted_rules": rules.fit(table),
        "figure": estimate.figures["true_auc"],
        "estimate": estimate,
        "report": judge_scores({"<i>a": population}, combine_audits([(plan, verdicts)])),
        "audit": AuditResult(estimate, None, {}),
        "curve": roc_spu(soft.value, runs[0].score),
        "profile": table.profile(),
    }


@pytest.mark.parametrize("name", LINES)
def test_the_repr_is_one_short_line(results, name):
    line = repr(results[name])

    assert line.startswith(f"<{type(results[name]).__name__}")
    assert len(line) < 200
    assert line.isprintable()


@pytest.mark.parametrize("name", SHOWN)
def test_html_is_a_compact_table_without_colours_and_without_markup_of_the_user(results, name):
    html = results[name]._repr_html_()

    assert html.count("<table") == 1
    assert len(html) < 20_000
    for markup in ("<script", "<img", "<b>", "<i>", "<u>", "color", 'style="background'):
        assert markup not in html, markup


@pytest.mark.parametrize("name", TABLES)
def test_what_is_shown_as_a_table_is_also_a_frame_and_markdown_without_markup(results, name):
    markdown = results[name].to_markdown()

    assert isinstance(results[name].to_frame(), pd.DataFrame)
    assert "| --- |" in markdown
    assert "<" not in markdown


def test_the_table_of_a_rule_matrix_counts_the_rows_of_each_rule():
    matrix = RuleMatrix.from_label_matrix([[1, -1], [0, -1], [1, -1]], {"late": (0.1, 0.6), "never": 0.8})
    late, never = matrix.to_frame().to_dict("records")

    assert late == {"rule": "late", "rows": 3, "share": 1.0, "mean belief": pytest.approx((0.6 + 0.1 + 0.6) / 3)}
    assert (never["rows"], never["share"]) == (0, 0.0)
    assert np.isnan(never["mean belief"])


def test_the_contributions_to_a_soft_label_add_up_to_it(results):
    for row in range(20):
        explanation = explain_row(results["soft_labels"], row)

        assert explanation.to_frame()["contribution"].sum() == pytest.approx(explanation.value)
        assert str(explanation) == explanation.text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bundle", "lightgbm"),
        ("audit", "True AUC"),
        ("report", "&lt;i&gt;a"),
        ("table", "&lt;img"),
        ("rules", "&lt;b&gt;rule 0"),
        ("comparison", "&lt;i&gt;"),
    ],
)
def test_html_shows_what_it_is_about(results, name, text):
    assert text in results[name]._repr_html_()


def test_long_tables_are_cut_and_say_so():
    html = html_table("t", pd.DataFrame({"<a>": range(SHOWN_ROWS + 7)}))

    assert html.count("<td>") == SHOWN_ROWS
    assert "… and 7 more" in html
    assert "<a>" not in html
