"""The codec: what it writes, what it reads back, and the sentence for whatever does not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core.codec import decode, dump_json, encode, encode_tagged, parse_json, tagged
from spu_core.errors import RuleError, SpuError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    share: float
    name: str | None = None

    def __post_init__(self) -> None:
        if self.share > 1:
            raise SpuError(f"share must be at most 1, got {self.share:g}.")


@dataclass(frozen=True)
class Outer:
    count: int
    budget: float = 0.5
    is_on: bool = True
    colour: Colour = Colour.RED
    side: Literal["left", "right"] = "left"
    cell: str | float | None = None
    inner: Inner | None = None
    pairs: tuple[tuple[str, float], ...] = ()
    parts: Mapping[str, Inner] = field(default_factory=dict)
    free: Any = None


class Shape:
    """Base of two kinds."""


@dataclass(frozen=True)
class Circle(Shape):
    kind: ClassVar[str] = "circle"
    radius: float
    note: str | None = None


@dataclass(frozen=True)
class Square(Shape):
    kind: ClassVar[str] = "square"
    side: float


FULL = Outer(
    count=3,
    budget=1,
    is_on=False,
    colour=Colour.BLUE,
    side="right",
    cell="x",
    inner=Inner(0.25, "ä"),
    pairs=(("a", 1.5), ("b", 2)),
    parts={"one": Inner(1)},
    free={"list": [1, "two", None]},
)


def read(data: Any, **options: Any) -> Outer:
    return decode(Outer, data, "The value", RuleError, **options)


def test_a_value_comes_back_equal_and_a_whole_number_stays_whole():
    again = read(parse_json(dump_json(encode(FULL)), "The value"))

    assert again == FULL
    assert type(again.budget) is int
    assert type(again.inner.share) is float


@given(st.floats(), st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(-(10**18), 10**18))
def test_numbers_and_texts_come_back_to_the_bit(number, text, count):
    again = read(parse_json(dump_json(encode(Outer(count, number, cell=text))), "The value"))

    kept = number if math.isfinite(number) else math.nan
    assert again.count == count
    assert again.cell == text
    np.testing.assert_array_equal(again.budget, kept)


def test_what_json_lacks_is_null_or_refused():
    numbers = {"nan": math.nan, "inf": np.array([1.0, np.inf]), "scalar": np.float32(0.5), "flag": np.bool_(True)}

    assert encode(numbers) == {"nan": None, "inf": [1.0, None], "scalar": 0.5, "flag": True}
    assert math.isnan(read({"count": 1, "budget": None}).budget)
    with pytest.raises(RuleError, match=r"^result\.inf\[1\] holds inf, which JSON cannot represent; use None"):
        encode({"inf": [1.0, np.inf]}, "result", RuleError, exact=True)
    with pytest.raises(RuleError, match=r"^summary\.made must be made of text, numbers.*but holds a set\.$"):
        encode({"made": {1}}, "summary", RuleError)
    assert encode({"made": {1}}, default=sorted) == {"made": [1]}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "The value must be an object, got a list of 0."),
        ({}, "The value lacks the field 'count'."),
        ({"cuont": 1}, "The value has an unknown field 'cuont'. Did you mean 'count'?"),
        ({"count": 1.0}, "count must be a whole number, got 1.0."),
        ({"count": True}, "count must be a whole number, got True."),
        ({"count": 1, "budget": "1"}, "budget must be a number, got '1'."),
        ({"count": 1, "budget": 10**400}, "budget must be a finite number, got 1000"),
        ({"count": 1, "is_on": 1}, "is_on must be true or false, got 1."),
        ({"count": 1, "colour": "rde"}, "colour has an unknown value 'rde'. Did you mean 'red'?"),
        ({"count": 1, "side": "up"}, "side has an unknown value 'up'. Available: 'left', 'right'."),
        ({"count": 1, "cell": True}, "cell must be text or a number, got True."),
        ({"count": 1, "cell": "\ud800"}, "cell must be text or a number"),
        ({"count": 1, "inner": {"share": 2}}, "inner: share must be at most 1, got 2."),
        ({"count": 1, "inner": {"share": 0.5, "name": 3}}, "inner.name must be text, got 3."),
        ({"count": 1, "inner": {"share": 0.5, "name": "\ud800"}}, "inner.name has an invalid character"),
        ({"count": 1, "pairs": {}}, "pairs must be a list, got an object of 0."),
        ({"count": 1, "pairs": [["a"]]}, "pairs[0] must have 2 entries, got 1."),
        ({"count": 1, "pairs": [["a", 1], [2, 1]]}, "pairs[1][0] must be text, got 2."),
        ({"count": 1, "parts": {"one": {}}}, "parts.one lacks the field 'share'."),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(data, sentence):
    with pytest.raises(RuleError) as problem:
        read(data)

    assert str(problem.value).startswith(sentence)


def test_a_complete_value_has_all_fields_and_limits_hold():
    with pytest.raises(RuleError, match=r"lacks the field 'budget'"):
        read({"count": 1}, complete=True)
    with pytest.raises(RuleError, match=r"inner\.name has 3 characters, more than the limit of 2\."):
        read({"count": 1, "inner": {"share": 0, "name": "xyz"}}, max_text=2)
    with pytest.raises(RuleError, match=r"pairs has 2 entries, more than the limit of 1\."):
        read({"count": 1, "pairs": [["a", 1], ["b", 1]]}, max_items=1)


@pytest.mark.parametrize("version", [None, 2, True, "1"])
def test_another_version_of_the_format_is_refused(version):
    assert read({"schema": 1, "count": 2}, schema=("schema", 1)) == Outer(2)

    with pytest.raises(RuleError, match=rf"^The value has schema {version!r}, but this version reads 1; update"):
        read({"schema": version, "count": 2}, schema=("schema", 1))
    with pytest.raises(RuleError, match="lacks the field 'schema'"):
        read({"count": 2}, schema=("schema", 1))


def test_one_of_several_classes_is_told_apart_by_its_kind():
    hooks = {Shape: tagged(Circle, Square)}

    assert encode_tagged(Circle(2.0)) == {"kind": "circle", "radius": 2.0}
    for shape in (Circle(2.0, "round"), Square(1.5)):
        assert decode(Shape, encode_tagged(shape), "The shape", hooks=hooks) == shape
    with pytest.raises(SpuError, match=r"^kind has an unknown value 'circel'\. Did you mean 'circle'\?$"):
        decode(Shape, {"kind": "circel"}, "The shape", hooks=hooks)
    with pytest.raises(SpuError, match="lacks the field 'kind'"):
        decode(Shape, {"radius": 1}, "The shape", hooks=hooks)
