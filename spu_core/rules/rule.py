"""A rule: one piece of domain knowledge, as a name, a condition and a belief."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from spu_core.errors import RuleError
from spu_core.rules.beliefs import Belief, Constant
from spu_core.rules.conditions import Condition, check_size
from spu_core.rules.fields import check_text
from spu_core.rules.values import one_line

MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows where `when` holds are believed to be positive to the degree `belief`.

    Without a condition the rule fires on every row. A number as belief is a constant, and may be 0 ("known to be
    clean", for the combiner *first match*); a graded belief fires only where it is known and above 0. The id stays when
    the rule is renamed or changed; by default it is made from the first name.

    >>> from spu_core.rules import Compare
    >>> rule = Rule("Investor", 0.5, when=Compare("capital-gain", ">", 0))
    >>> rule.text, rule.id
    ('capital-gain > 0 → 0.50', 'investor')
    >>> rule.renamed("Has gains").id
    'investor'
    """

    name: str
    belief: Belief
    when: Condition | None = None
    id: str = ""
    on: bool = True
    note: str = ""

    def __init__(
        self,
        name: str,
        belief: Belief | float,
        when: Condition | None = None,
        id: str = "",
        on: bool = True,
        note: str = "",
    ) -> None:
        name = _check_name(name, "name of a rule")
        fields = {
            "name": name,
            "belief": _check_belief(belief, name),
            "when": _check_condition(when, name),
            "id": _check_name(id or default_id(name), f"id of rule {name!r}"),
            "on": _check_switch(on, name),
            "note": check_text(note, f"note of rule {name!r}"),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    @property
    def text(self) -> str:
        """The rule in one line."""
        condition = "always" if self.when is None else self.when.words
        return f"{condition} → {self.belief.words}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads, each once, in order of appearance."""
        compared = () if self.when is None else (compare.column for compare in self.when.comparisons)
        return tuple(dict.fromkeys([*compared, *self.belief.needs]))

    def renamed(self, name: str) -> Rule:
        return replace(self, name=name)

    def switched(self, on: bool) -> Rule:
        return replace(self, on=on)

    def with_belief(self, belief: Belief | float) -> Rule:
        return replace(self, belief=_check_belief(belief, self.name))

    def __str__(self) -> str:
        return f"{one_line(self.name)}: {self.text}"


def default_id(name: str) -> str:
    """An id that can stand in a URL or a key: letters and digits of any script, joined by dashes.

    >>> default_id("Gain > 0 (große)"), len(default_id("→"))
    ('gain-0-große', 8)
    """
    letters = "".join(character if character.isalnum() else " " for character in name.lower())
    return "-".join(letters.split())[:60] or hashlib.sha256(name.encode()).hexdigest()[:8]


def _check_name(name: Any, place: str) -> str:
    text = check_text(name, f"The {place}")
    if not text.strip() or len(text) > MAX_NAME:
        raise RuleError(f"The {place} must have 1 to {MAX_NAME} characters, got {text[:40]!r}.")
    return text


def _check_belief(belief: Any, name: str) -> Belief:
    if isinstance(belief, Belief):
        return belief
    if isinstance(belief, Real) and not isinstance(belief, bool) and 0.0 <= float(belief) <= 1.0:
        return Constant(float(belief))
    raise RuleError(f"Rule {name!r} needs a belief: a number in [0, 1], a ramp, a column or checks; got {belief!r}.")


def _check_condition(when: Any, name: str) -> Condition | None:
    if when is not None:
        if not isinstance(when, Condition):
            raise RuleError(f"Rule {name!r} needs a condition such as Compare('age', '>', 30), got {when!r}.")
        check_size(when, f"The condition of rule {name!r}")
    return when


def _check_switch(on: Any, name: str) -> bool:
    if not isinstance(on, bool):
        raise RuleError(f"Rule {name!r} is on or off (true or false), got {on!r}.")
    return on
