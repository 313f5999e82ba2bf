"""The encoder: frozen levels, unseen values, dates, memory, and words for what it cannot read."""

import json

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError, TrainingError
from spu_core.models import Encoder, FittedEncoder
from spu_core.models.features import LinearView

TABLE = pd.DataFrame(
    {
        "age": [30.0, None, 50.0],
        "job": ["clerk", "clerk", "pilot"],
        "member": [True, False, True],
        "since": pd.to_datetime(["2024-01-01", "2024-01-02", None]),
    }
)


def test_each_column_becomes_one_column():
    matrix = Encoder().fit(TABLE).transform(TABLE).matrix

    assert matrix[:, 1].tolist() == [1, 1, 2], "codes are ranks of frequency, the commonest level first"
    assert matrix[:, 2].tolist() == [1, 0, 1]
    assert matrix[1, 3] - matrix[0, 3] == 1, "dates are days"
    assert np.isnan(matrix[1, 0])
    assert np.isnan(matrix[2, 3])


def test_unseen_levels_get_a_code_of_their_own_and_missing_ones_stay_missing():
    later = TABLE.assign(job=["astronaut", None, "pilot"])

    codes = Encoder().fit(TABLE).transform(later).matrix[:, 1]

    assert codes[0] == 0
    assert np.isnan(codes[1])
    assert codes[2] == 2


def test_order_of_columns_and_extra_columns_do_not_matter():
    fitted = Encoder().fit(TABLE)

    turned = fitted.transform(TABLE[TABLE.columns[::-1]].assign(extra=1))

    assert np.array_equal(turned.matrix, fitted.transform(TABLE).matrix, equal_nan=True)


def test_columns_of_another_type_and_missing_columns_are_named_all_at_once():
    wrong = TABLE.drop(columns="member").assign(age=["x", "y", "z"], since=[1, 2, 3])

    with pytest.raises(TableError) as error:
        Encoder().fit(TABLE).transform(wrong)

    assert str(error.value) == (
        "The table does not fit the model. Missing: 'member'. Column 'age' was number when the model was trained, "
        "now text. Column 'since' was date when the model was trained, now number."
    )


def test_columns_that_cannot_be_features_are_named_all_at_once():
    frame = pd.DataFrame({"id": [f"user{k}" for k in range(200)], "odd": [1, "a"] * 100, "fine": range(200)})

    with pytest.raises(TrainingError) as error:
        Encoder().fit(frame)

    assert "Column 'id' looks like an identifier or free text (200 different values in 200 rows)" in str(error.value)
    assert "Column 'odd' mixes kinds of values" in str(error.value)


def test_a_hundred_thousand_levels_stay_one_column():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 100_000, 300_000).astype(str)

    fitted = Encoder().fit(pd.DataFrame({"zip": levels}))
    features = fitted.transform(pd.DataFrame({"zip": levels}))

    assert features.matrix.shape == (300_000, 1)
    assert features.matrix.max() == 1000
    assert features.linear_view().width <= 100


def test_memory_is_refused_before_it_is_taken():
    frame = pd.DataFrame(np.zeros((1000, 50)))

    with pytest.raises(TrainingError, match=r"needs 0 MB \(1,000 rows × 50 columns\), but the limit is 0 MB"):
        Encoder(memory_limit=1000).fit(frame)


def test_number_columns_can_be_declared_categories_and_survive_a_missing_value():
    fitted = Encoder(categories=("code",)).fit(pd.DataFrame({"code": [7, 7, 3]}))

    codes = fitted.transform(pd.DataFrame({"code": [3.0, None, 7.0]})).matrix[:, 0]

    assert codes[[0, 2]].tolist() == [2, 1]


def test_neighbouring_seconds_stay_apart_in_float32():
    seconds = pd.DataFrame({"at": 1_700_000_000 + np.arange(100)})

    assert np.unique(Encoder().fit(seconds).transform(seconds).matrix).size == 100


def test_infinite_numbers_keep_their_place_in_the_order():
    frame = pd.DataFrame({"x": [-np.inf, 0.0, np.inf]})

    column = Encoder().fit(frame).transform(frame).matrix[:, 0]

    assert np.isfinite(column).all()
    assert (np.diff(column) > 0).all()


def test_nullable_object_and_categorical_columns_are_read():
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.Series([True, None, False], dtype=object),
            "c": pd.Categorical(["x", None, "y"]),
            "d": [None, None, None],
        }
    )

    matrix = Encoder().fit(frame).transform(frame).matrix

    assert np.isnan(matrix[1]).all()
    assert matrix[0, :3].tolist() == [1, 1, 1]


def test_a_column_name_given_twice_is_refused():
    with pytest.raises(TableError, match="Column names must be unique, but 'a' appears more than once"):
        Encoder().fit(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_the_state_is_json_and_comes_back_equal():
    fitted = Encoder().fit(TABLE)

    again = FittedEncoder.from_dict(json.loads(json.dumps(fitted.to_dict())))

    assert again == fitted


def test_the_linear_view_has_no_missing_values_and_flags_them():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.exponential(size=500), "c": rng.choice(["a", "b"], 500)})
    frame.loc[:49, "x"] = np.nan
    features = Encoder().fit(frame).transform(frame)

    linear = features.linear_view().transform_rows(features)

    flag, score = linear[:, 0], linear[:, 1]
    assert linear.shape == (500, 4)
    assert flag.sum() == 50
    assert score[50:].std() == pytest.approx(1, abs=0.05), "normal scores, whatever the shape of the column"
    assert np.argsort(score[50:]).tolist() == np.argsort(frame["x"][50:].to_numpy()).tolist()


def test_the_linear_view_comes_back_from_its_arrays():
    features = Encoder().fit(TABLE).transform(TABLE)
    view = features.linear_view()

    again = LinearView.from_state(view.to_state())

    assert np.array_equal(again.transform_rows(features), view.transform_rows(features))


def test_rows_are_taken_once_and_in_order():
    features = Encoder().fit(TABLE).transform(TABLE)

    with pytest.raises(TrainingError, match="increasing order and once each; use weights to count a row twice"):
        features.take([1, 1])


def test_dropping_every_column_is_told():
    features = Encoder().fit(TABLE[["age"]]).transform(TABLE)

    with pytest.raises(TrainingError, match="No column is left to learn from: the rules read all of 'age'"):
        features.without(["age"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_table_of_plain_floats_is_encoded_as_its_columns_are_one_by_one(dtype):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)).astype(dtype), columns=["a", "b", "c"])
    frame.iloc[0, 0], frame.iloc[1, 1], frame.iloc[2, 2] = np.nan, np.inf, -np.inf
    if dtype is np.float64:
        frame.iloc[3, 0] = 1e300
    before = frame.copy()
    fitted = Encoder().fit(frame)

    matrix = fitted.transform(frame[["c", "a", "b"]]).matrix

    one_by_one = np.column_stack([column.encode(frame[column.name]) for column in fitted.columns]).astype(np.float32)
    np.testing.assert_array_equal(matrix, one_by_one)
    assert matrix.flags["C_CONTIGUOUS"]
    pd.testing.assert_frame_equal(frame, before)
