"""Domain knowledge as data: conditions, beliefs, rules, rule sets (from and to JSON), fitted rules, analysis."""

from spu_core.codec import parse_json
from spu_core.rules.beliefs import Belief, CheckRatio, CheckRecord, Constant, Ramp, ReadyMade
from spu_core.rules.checking import check_rules
from spu_core.rules.columns import Kind
from spu_core.rules.conditions import AllOf, AnyOf, Compare, Condition, Not, column
from spu_core.rules.draft import ColumnChoices, column_choices, from_checks
from spu_core.rules.matrix import RuleMatrix, overlap_table, rule_findings, summarize_rules
from spu_core.rules.operators import OPERATORS
from spu_core.rules.rule import Rule
from spu_core.rules.rule_set import FittedRules, RuleSet

__all__ = [
    "OPERATORS",
    "AllOf",
    "AnyOf",
    "Belief",
    "CheckRatio",
    "CheckRecord",
    "ColumnChoices",
    "Compare",
    "Condition",
    "Constant",
    "FittedRules",
    "Kind",
    "Not",
    "Ramp",
    "ReadyMade",
    "Rule",
    "RuleMatrix",
    "RuleSet",
    "check_rules",
    "column",
    "column_choices",
    "from_checks",
    "overlap_table",
    "parse_json",
    "rule_findings",
    "summarize_rules",
]
