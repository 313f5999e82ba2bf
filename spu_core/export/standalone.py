"""Score a CSV file with model.onnx; needs Python, numpy and onnxruntime, nothing else.

The hash of the model and the scores of its self-test rows are checked first. They show that it is whole and works here,
not who made it: use it only if you trust the sender.

usage: python score.py model.onnx NEW.csv SCORED.csv

Text cells are read as they are, the empty cell is a missing value, dates are ISO 8601 (UTC unless they say otherwise).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np

CHUNK = 10_000
TOLERANCE = 1e-6
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What an export uses of ai.onnx.ml, and the lists, settings and comparisons of its trees.
ML_OPERATORS = ("TreeEnsemble", "LabelEncoder")
TREE_LISTS = (
    *("tree_roots", "nodes_featureids", "nodes_truenodeids", "nodes_trueleafs"),
    *("nodes_falsenodeids", "nodes_falseleafs", "nodes_missing_value_tracks_true", "leaf_targetids"),
)
TREE_SETTINGS = {"n_targets": [1], "aggregate_function": [1], "post_transform": [0]}
MEMBER, MODES = 6, (0, 1, 6)
# onnxruntime follows a tree by recursion; at 20,000 levels it overflows its stack.
DEEPEST_TREE = 5_000
FLAGS = {"true": 1.0, "t": 1.0, "yes": 1.0, "false": 0.0, "f": 0.0, "no": 0.0}


def main(model: str, source: str, target: str) -> None:
    session, about = open_model(model)
    outputs = [output.name for output in session.get_outputs()]
    with open(source, newline="", encoding="utf-8-sig") as rows, open(target, "w", newline="", encoding="utf-8") as out:
        reader, writer = csv.DictReader(rows), csv.writer(out)
        need_columns(about["inputs"], reader.fieldnames or [])
        writer.writerow(["id", *("score" if name == about["score"] else "flagged" for name in outputs)])
        done = 0
        for chunk in chunks(reader):
            inputs = {wanted["name"]: column(wanted, chunk) for wanted in about["inputs"]}
            found = session.run(outputs, inputs)
            refuse_unscored(found[outputs.index(about["score"])], done)
            for place, row in enumerate(chunk):
                values = [value[place, 0].item() for value in found]
                writer.writerow([safe(row.get(about["id_column"]) or str(done + place + 1)), *values])
            done += len(chunk)
    print(f"{done} rows scored")


def open_model(path: str) -> tuple[Any, dict[str, Any]]:
    """(session, facts about the model), once its hash, the version of onnxruntime and its self-test are right."""
    import onnxruntime

    with open(path, "rb") as stream:
        data = stream.read()
    if hashlib.sha256(data[:-64]).hexdigest().encode() != data[-64:]:
        sys.exit(f"{path!r} was changed, cut off or made by another program: its SHA-256 is wrong. Export it again.")
    try:
        check_graph(data)
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        about = json.loads(session.get_modelmeta().custom_metadata_map["spu-studio"])
        lowest, test = about["onnxruntime"], about["self_test"]
        if {wanted["name"] for wanted in about["inputs"]} != {wanted.name for wanted in session.get_inputs()}:
            raise ValueError("the metadata describe other inputs")
        if version(onnxruntime.__version__) < version(lowest):
            sys.exit(f"onnxruntime {onnxruntime.__version__} can give wrong scores; install {lowest} or newer.")
        gap = self_test_gap(session, about["score"], test)
    except Exception as problem:
        reason = str(problem) if type(problem) is ValueError else type(problem).__name__
        sys.exit(f"{path!r} is not a model that can be used here ({reason}). Export it again.")
    if not gap <= TOLERANCE:
        sys.exit(
            f"{path!r} gives other scores here than at its export: its self-test rows differ by up to {gap:.3g}. "
            f"Nothing was scored. It has been tried with onnxruntime {lowest} and newer; this is "
            f"{onnxruntime.__version__}."
        )
    return session, about


def check_graph(data: bytes) -> None:
    """Raise an error where the graph holds what no export does: onnxruntime may crash, or read a number as another.

    The numbers of the fields are those of onnx.proto.
    """
    model = fields(data)
    if data[4:8] == b"ORTM" or 25 in model:
        raise ValueError("the file has another format, or functions of its own")
    for graph in model[7]:
        for node in map(fields, fields(graph).get(1, [])):
            attributes = [fields(attribute) for attribute in node.get(5, [])]
            if any(6 in attribute or 11 in attribute for attribute in attributes):
                raise ValueError("a graph within the graph")
            kind, domain = (node.get(number, [b""])[-1].decode() for number in (4, 7))
            if domain not in ("", "ai.onnx") and (domain != "ai.onnx.ml" or kind not in ML_OPERATORS):
                raise ValueError("an operator that no export uses")
            if kind == "TreeEnsemble":
                check_trees(attributes)


def check_trees(attributes: list[dict[int, list[Any]]]) -> None:
    """Raise an error unless each node is a root or a child exactly once: no tree leads outside or in a circle."""
    found = {attribute[1][-1].decode(): attribute for attribute in attributes}
    roots, columns, true, true_leaf, false, false_leaf, missing, targets = (
        integers(found.pop(name)[8]) for name in TREE_LISTS
    )
    modes = tensor(found.pop("nodes_modes"), "<u1")
    splits, leaves = (tensor(found.pop(name), "<f8") for name in ("nodes_splits", "leaf_weights"))
    members = tensor(found.pop("membership_values"), "<f8") if "membership_values" in found else splits[:0]
    children, is_leaf = np.array([true, false]), np.array([true_leaf, false_leaf])
    inner = np.where(is_leaf == 1, -1, children)
    fits = (
        len(attributes) == len(TREE_LISTS) + 3 + bool(members.size) + len(TREE_SETTINGS)
        and {name: attribute[3] for name, attribute in found.items()} == TREE_SETTINGS
        and len({each.size for each in (columns, true, true_leaf, false, false_leaf, missing, modes, splits)}) == 1
        and np.isin(modes, MODES).all()
        and np.isin(is_leaf, (0, 1)).all()
        and np.isin(children[is_leaf == 1], np.arange(leaves.size)).all()
        and np.array_equal(np.sort([*roots, *children[is_leaf == 0]]), np.arange(columns.size))
        and 0 <= columns.min() <= columns.max() < 2**31
        and np.array_equal(targets, np.zeros(leaves.size))
        # The sets of categories stand one after the other; NaN ends each.
        and np.isnan(members).sum() == (modes == MEMBER).sum()
        and np.isnan(members[-1:]).all()
    )
    for _ in range(DEEPEST_TREE if fits else 0):
        if not roots.size:
            return
        roots = inner[:, roots].ravel()
        roots = roots[roots >= 0]
    raise ValueError("its trees do not fit together")


def fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protobuf message by their numbers: integers as int, all others as bytes."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = integer(data, at)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, at = integer(data, at)
        else:
            size, at = integer(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        if not (0 < number < 2**29 and 0 <= at <= len(data)):
            raise ValueError("a damaged message")
        found.setdefault(number, []).append(value)
    return found


def integer(data: bytes, at: int) -> tuple[int, int]:
    """(the integer at this place, the place after it): seven bits a byte, the lowest first; signed, 64 bits."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            value &= 2**64 - 1
            return value - 2**64 if value >> 63 else value, at
    raise ValueError("a damaged integer")


def integers(values: list[Any]) -> np.ndarray:
    """The integers of a repeated field, which protobuf stores one by one or packed."""
    found: list[int] = []
    for value in values:
        at = 0
        while isinstance(value, bytes) and at < len(value):
            one, at = integer(value, at)
            found.append(one)
        if isinstance(value, int):
            found.append(value)
    return np.array(found, dtype=np.int64)


def tensor(attribute: dict[int, list[Any]], kind: str) -> np.ndarray:
    """The numbers of an attribute that holds a list of numbers of this kind, stored as bytes."""
    [stored] = attribute[5]
    parts = fields(stored)
    found = np.frombuffer(parts[9][-1], kind)
    is_whole = parts.keys() - {8} == {1, 2, 9} and integers(parts[1]).tolist() == [found.size]
    if not is_whole or parts[2] != [{"<u1": 2, "<f8": 11}[kind]]:
        raise ValueError("a list of numbers with another type or length")
    return found


def self_test_gap(session: Any, score: str, test: dict[str, Any]) -> float:
    """The largest difference between the scores of the self-test rows here and at the export."""
    inputs = {}
    for wanted in test["columns"]:
        is_text = wanted["kind"] == "text"
        cells = [("" if is_text else math.nan) if value is None else value for value in wanted["values"]]
        inputs[wanted["name"]] = np.array(cells, dtype=object if is_text else np.float64)[:, None]
    found = session.run([score], inputs)[0].ravel()
    return float(np.max(np.abs(found - np.array(test["score"]))))


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def refuse_unscored(score: np.ndarray, done: int) -> None:
    lost = np.flatnonzero(np.isnan(score))
    if lost.size:
        sys.exit(
            f"Row {done + int(lost[0]) + 1} cannot be scored: the rules use one of its columns as a belief, which must "
            "lie in [0, 1], or as a record of checks, with 0 ≤ passes ≤ checks."
        )


def need_columns(inputs: list[dict[str, str]], names: Iterable[str]) -> None:
    absent = [wanted["name"] for wanted in inputs if wanted["name"] not in names]
    if absent:
        sys.exit(f"The file lacks the columns: {', '.join(map(repr, absent))}.")


def chunks(reader: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    for row in reader:
        chunk.append(row)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def column(wanted: dict[str, str], chunk: list[dict[str, Any]]) -> np.ndarray:
    read: Any = {"text": str, "days": days, "flag": flag, "number": number}[wanted["kind"]]
    cells = [read(row[wanted["name"]]) for row in chunk]
    return np.array(cells, dtype=object if wanted["kind"] == "text" else np.float64)[:, None]


def number(cell: str) -> float:
    return float(cell) if cell.strip() else math.nan


def flag(cell: str) -> float:
    return FLAGS[cell.strip().lower()] if cell.strip().lower() in FLAGS else number(cell)


def days(cell: str) -> float:
    if not cell.strip():
        return math.nan
    moment = datetime.fromisoformat(cell.strip())
    moment = moment if moment.tzinfo else moment.replace(tzinfo=EPOCH.tzinfo)
    return (moment - EPOCH).total_seconds() / 86_400


def safe(text: str) -> str:
    """The text with an apostrophe in front where a spreadsheet would run it as a formula."""
    seen = "".join(letter for letter in text if letter.isprintable()).lstrip()
    return "'" + text if seen[:1] and seen[0] in "=+-@|＝＋－＠" and not is_number(text) else text


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
