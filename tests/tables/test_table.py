"""The table: roles that keep their laws, labels that mean what they say, and content that cannot be changed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.tables import ANY_VALUE, ColumnType, Role, Table, read_table


def people(**extra: object) -> pd.DataFrame:
    return pd.DataFrame({"age": [31, 54, 47, 60], "label": [0, 1, 0, 1], **extra})


def test_roles_that_are_given_are_kept_and_others_guessed() -> None:
    table = Table.from_frame(people(note=["a", "b", "a", "b"]), roles={"note": "ignore"})

    assert dict(table.roles) == {"age": Role.FEATURE, "label": Role.LABEL, "note": Role.IGNORE}
    assert table.features == ("age",)


def test_labels_are_false_without_a_label_column() -> None:
    table = Table.from_frame(pd.DataFrame({"age": [1, 2]}))

    assert table.is_labeled.tolist() == [False, False]
    assert table.truth is None
    assert table.soft_label is None
    assert table.sample_weight is None
    assert table.groups is None
    assert table.times is None


def test_every_role_has_its_array() -> None:
    frame = people(
        truth=["no", "yes", "yes", "yes"],
        soft_label=[0.0, 1.0, 0.25, 1.0],
        sample_weight=[1, 2, 1, 1],
        group_id=["a", "a", "b", "b"],
        date=pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]),
    )
    table = Table.from_frame(frame)

    assert table.truth.tolist() == [False, True, True, True]
    assert table.soft_label.tolist() == [0.0, 1.0, 0.25, 1.0]
    assert table.sample_weight.tolist() == [1.0, 2.0, 1.0, 1.0]
    assert table.groups.tolist() == ["a", "a", "b", "b"]
    assert table.times.dtype.kind == "M"
    assert table.features == ("age",)


@pytest.mark.parametrize(
    ("values", "expected", "meaning"),
    [
        ([0, 1, 0], [False, True, False], (1,)),
        ([-1, 1, -1], [False, True, False], (1,)),
        ([0.0, np.nan, 1.0], [False, False, True], (1.0,)),
        (["no", "yes", None], [False, True, False], ("yes",)),
        (["N", "Y", "N"], [False, True, False], ("Y",)),
        ([True, False, False], [True, False, False], (True,)),
        (["benign", "malignant", "benign"], [False, True, False], ("malignant",)),
        ([None, "confirmed", None], [False, True, False], ("confirmed",)),
        (pd.to_datetime([None, "2024-03-01", None]), [False, True, False], (ANY_VALUE,)),
    ],
    ids=["0/1", "-1/1", "with gaps", "yes/no", "Y/N", "flags", "words", "one word", "date of confirmation"],
)
def test_the_value_that_means_positive_is_found(values: object, expected: list[bool], meaning: tuple) -> None:
    table = Table.from_frame(pd.DataFrame({"x": [1, 2, 3], "label": values}))

    assert table.positive_values == meaning
    assert table.is_labeled.tolist() == expected


def test_a_mostly_missing_date_is_a_date_of_confirmation() -> None:
    dates = pd.to_datetime(["2024-03-01", *[None] * 9])
    table = Table.from_frame(pd.DataFrame({"x": range(10), "fraud_on": dates}))

    assert table.column_with(Role.LABEL) == "fraud_on"
    assert table.is_labeled.sum() == 1


def test_positive_values_can_be_named_in_any_form() -> None:
    table = Table.from_frame(
        pd.DataFrame({"x": [1, 2, 3], "label": [0, 1, 2]}), roles={"label": "label"}, positive_values=["1", 2]
    )

    assert table.positive_values == (1, 2)
    assert table.with_positive_values(0).is_labeled.tolist() == [True, False, False]


def test_a_label_without_a_plain_meaning_asks_for_it() -> None:
    with pytest.raises(
        TableError, match=r"cannot have the role 'label' without positive values.*Give the positive values"
    ):
        Table.from_frame(pd.DataFrame({"x": [1, 2, 3], "status": ["a", "b", "c"]}), roles={"status": "label"})


@pytest.mark.parametrize("role", ["label", "truth"])
def test_an_answer_never_becomes_a_feature(role: str) -> None:
    table = Table.from_frame(pd.DataFrame({"x": [1, 2], "y": [0, 1]}), roles={"y": role})

    with pytest.raises(TableError, match=f"has the role '{role}', so it cannot become a feature"):
        table.with_roles({"y": "feature"})


def test_a_wrong_guess_is_corrected_by_naming_the_right_column() -> None:
    table = Table.from_frame(pd.DataFrame({"class": [0, 1, 0], "fraudster": [1, 0, 0]}))
    assert table.column_with("label") == "class"

    changed = table.with_roles({"fraudster": "label", "class": "feature"})

    assert dict(changed.roles) == {"class": Role.FEATURE, "fraudster": Role.LABEL}
    assert changed.is_labeled.tolist() == [True, False, False]
    assert table.column_with("label") == "class"


def test_a_copy_of_the_label_never_becomes_a_feature() -> None:
    frame = pd.DataFrame({"x": range(15), "label": [0, 1, 0] * 5, "banned": ["no", "yes", "no"] * 5})
    table = Table.from_frame(frame)

    assert table.roles["banned"] is Role.IGNORE
    with pytest.raises(TableError, match="'banned' splits the rows exactly as the label 'label' does"):
        table.with_roles({"banned": "feature"})


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"agee": "feature"}, "Did you mean 'age'?"),
        ({"age": "featur"}, "Did you mean 'feature'?"),
        ({"age": "soft_label"}, r"its values must lie in \[0, 1\], but row 0 holds 31"),
        ({"city": "weight"}, "its values must be numbers"),
        ({"gap": "truth"}, "missing in 1 rows"),
        ({"debt": "weight"}, "must be finite and not negative, but row 1 holds -2"),
    ],
)
def test_roles_that_contradict_the_values_are_refused(roles: dict[str, str], message: str) -> None:
    frame = people(city=["a", "b", "a", "b"], gap=[0, 1, None, 1], debt=[1, -2, 0, 0])

    with pytest.raises(TableError, match=message):
        Table.from_frame(frame, roles=roles)


def test_one_role_for_one_column() -> None:
    with pytest.raises(TableError, match="Only one column can have the role 'group', but 'a' and 'b' have it"):
        Table.from_frame(pd.DataFrame({"a": [1, 1], "b": [2, 2]}), roles={"a": "group", "b": "group"})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "has no columns"),
        (pd.DataFrame({1: [2]}), "must be non-empty text, got 1"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Two columns are called 'a'"),
    ],
)
def test_columns_need_names_of_their_own(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(TableError, match=message):
        Table.from_frame(frame)


def test_the_callers_frame_and_the_table_do_not_touch() -> None:
    frame = people()
    table = Table.from_frame(frame)
    frame.loc[0, "age"] = 99

    assert table.frame.loc[0, "age"] == 31


def test_equal_data_have_equal_fingerprints() -> None:
    first, second = (
        Table.from_frame(people()),
        Table.from_frame(people().astype({"age": "int32"}).astype({"age": "int64"})),
    )

    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 64


@pytest.mark.parametrize("change", ["value", "name", "order", "missing"])
def test_different_data_have_different_fingerprints(change: str) -> None:
    frame = people(city=["a", "b", None, "b"])
    other = {
        "value": frame.assign(age=[31, 54, 47, 61]),
        "name": frame.rename(columns={"age": "years"}),
        "order": frame[::-1],
        "missing": frame.assign(city=["a", "b", "", "b"]),
    }[change]

    assert Table.from_frame(frame).fingerprint != Table.from_frame(other).fingerprint


def test_types_follow_the_values() -> None:
    frame = pd.DataFrame({
        "user_id": range(40), "x": [0.5] * 40, "city": ["a", "b"] * 20, "flag": [True, False] * 20,
        "when": pd.date_range("2024-01-01", periods=40), "text": [f"note number {n}" for n in range(40)],
    })  # fmt: skip

    assert dict(Table.from_frame(frame).types) == {
        "user_id": ColumnType.IDENTIFIER, "x": ColumnType.NUMBER, "city": ColumnType.CATEGORY,
        "flag": ColumnType.BOOLEAN, "when": ColumnType.DATETIME, "text": ColumnType.TEXT,
    }  # fmt: skip


def test_what_was_said_about_a_guessed_label_is_over_once_another_is_chosen():
    table = read_table(b"a,cheater,admitted\n1,0,1\n2,1,0\n3,0,0\n" * 9)
    assert "label_guessed" in {finding.code for finding in table.findings}

    chosen = table.with_roles({"cheater": "truth", "admitted": "label"})

    assert not {"label_guessed", "no_label"} & {finding.code for finding in chosen.findings}
