"""Forged models: ONNX graphs and XGBoost trees that were changed by someone who made every hash fit again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def sealed(model: Any) -> bytes:
    """The bytes of an ONNX model with the hash that the exporter would write."""
    props = {entry.key: entry for entry in model.metadata_props}
    if "spu-studio-sha256" in props:
        props["spu-studio-sha256"].value = "0" * 64
    data = bytes(model.SerializeToString(deterministic=True))
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def forged_onnx(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was changed, the forged file), at least fifty of them."""
    import onnx

    def changed(change: Callable[[Any], None]) -> bytes:
        model = onnx.load_from_string(data)
        change(model)
        return sealed(model)

    for name, change in _tree_changes():
        yield name, changed(lambda model, change=change: change(_attributes(model)))
    for name, change in _graph_changes():
        yield name, changed(change)
    for name, change in _fact_changes():
        yield name, changed(lambda model, change=change: _change_facts(model, change))


def _attributes(model: Any) -> dict[str, Any]:
    tree = next(node for node in model.graph.node if node.op_type == "TreeEnsemble")
    return {attribute.name: attribute for attribute in tree.attribute}


def _tree_changes() -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    lists = ("tree_roots", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "leaf_targetids")
    for name in lists:
        for value in (10**6, -1, 2**40):
            yield f"{name} {value}", lambda found, name=name, value=value: _set(found[name].ints, 0, value)
    yield "a cycle", _lead_back
    yield "a root that is a child", lambda found: _set(found["tree_roots"].ints, 1, 1)
    yield "a leaf outside", _lead_to_no_leaf
    yield "a tree too deep for the stack", _chain
    yield "a set without end", lambda found: _put(found["membership_values"].t, -1, 1.0)
    yield "a set less", lambda found: _cut(found["membership_values"].t)
    for name in (*lists, "nodes_trueleafs", "nodes_missing_value_tracks_true"):
        yield f"{name} cut", lambda found, name=name: found[name].ints.pop()
    for name in ("nodes_modes", "nodes_splits", "leaf_weights"):
        yield f"{name} cut", lambda found, name=name: _cut(found[name].t)
    yield "a mode that does not exist", lambda found: _put(found["nodes_modes"].t, 0, 200)
    yield "a leaf that is no number", lambda found: _put(found["leaf_weights"].t, slice(None), np.nan)
    yield "other leaves", lambda found: _put(found["leaf_weights"].t, slice(None), 0.7)
    yield "no targets", lambda found: setattr(found["n_targets"], "i", 0)
    yield "many targets", lambda found: setattr(found["n_targets"], "i", 10**9)
    yield "an unknown sum", lambda found: setattr(found["aggregate_function"], "i", 9)


def _lead_back(found: dict[str, Any]) -> None:
    _set(found["nodes_falsenodeids"].ints, 1, 0)
    _set(found["nodes_falseleafs"].ints, 1, 0)


def _lead_to_no_leaf(found: dict[str, Any]) -> None:
    place = list(found["nodes_trueleafs"].ints).index(1)
    _set(found["nodes_truenodeids"].ints, place, 10**6)


def _chain(found: dict[str, Any], depth: int = 20_000) -> None:
    """One tree whose nodes lead to the next one or to leaf 0."""
    from onnx import numpy_helper

    lists = {
        "tree_roots": [0],
        "nodes_featureids": [0] * depth,
        "nodes_truenodeids": [*range(1, depth), 0],
        "nodes_trueleafs": [0] * (depth - 1) + [1],
        "nodes_falsenodeids": [0] * depth,
        "nodes_falseleafs": [1] * depth,
        "nodes_missing_value_tracks_true": [1] * depth,
    }
    for name, values in lists.items():
        found[name].ints[:] = values
    found["nodes_modes"].t.CopyFrom(numpy_helper.from_array(np.zeros(depth, np.uint8)))
    found["nodes_splits"].t.CopyFrom(numpy_helper.from_array(np.zeros(depth)))
    found["membership_values"].t.CopyFrom(numpy_helper.from_array(np.zeros(0)))


def _graph_changes() -> Iterator[tuple[str, Callable[[Any], None]]]:
    yield "a node less", lambda model: model.graph.node.pop(3)
    yield "no nodes", lambda model: model.graph.ClearField("node")
    yield "no output", lambda model: model.graph.ClearField("output")
    yield "an input less", lambda model: model.graph.input.pop(0)
    yield "another name of an input", lambda model: setattr(model.graph.input[0], "name", "other")
    yield "another type of an input", lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 7)
    yield "an unknown operator", lambda model: setattr(model.graph.node[0], "op_type", "RunProgram")
    yield "an unknown domain", lambda model: setattr(model.graph.node[0], "domain", "com.elsewhere")
    yield "an operator for trees that no export uses", _older_trees
    yield (
        "a graph within the graph",
        lambda model: model.graph.node[0].attribute.add(name="body", type=5).g.SetInParent(),
    )
    yield "another format", lambda model: setattr(model, "producer_name", "ORTM")
    yield "a newer form", lambda model: setattr(model, "ir_version", 99)
    yield "newer operators", lambda model: setattr(model.opset_import[0], "version", 99)
    yield "numbers in another file", lambda model: _elsewhere(model.graph.initializer[0])
    yield "a constant less", lambda model: model.graph.initializer.pop(0)
    yield "a constant of another shape", lambda model: model.graph.initializer[0].dims.append(3)


def _older_trees(model: Any) -> None:
    next(node for node in model.graph.node if node.op_type == "TreeEnsemble").op_type = "TreeEnsembleRegressor"


def _fact_changes() -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    yield "no self-test", lambda facts: facts.update(self_test=None)
    yield "no inputs", lambda facts: facts.pop("inputs")
    yield "no version", lambda facts: facts.pop("onnxruntime")
    yield "an odd version", lambda facts: facts.update(onnxruntime="new")
    yield "other scores", lambda facts: facts["self_test"].update(score=[0.5] * 20)
    yield "fewer scores", lambda facts: facts["self_test"]["score"].pop()
    yield "a column less in the self-test", lambda facts: facts["self_test"]["columns"].pop()
    yield "text for numbers", lambda facts: facts["self_test"]["columns"][0].update(values=["x"] * 20)


def _change_facts(model: Any, change: Callable[[dict[str, Any]], Any]) -> None:
    entry = next(entry for entry in model.metadata_props if entry.key == "spu-studio")
    facts = json.loads(entry.value)
    change(facts)
    entry.value = json.dumps(facts)


def _set(values: Any, place: int, value: int) -> None:
    values[place] = value


def _put(tensor: Any, place: Any, value: float) -> None:
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor).copy()
    array[place] = value
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _cut(tensor: Any) -> None:
    from onnx import numpy_helper

    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[:-1].copy(), tensor.name))


def _elsewhere(tensor: Any) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../../etc/passwd"


def forged_xgboost(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was changed, the forged model), at least fifty: damaged bytes, and trees that lead outside themselves."""
    import xgboost as xgb

    booster = xgb.Booster(model_file=bytearray(raw))
    plain = bytes(booster.save_raw("json"))
    for end in np.linspace(1, len(raw) - 2, 16).astype(int):
        yield f"cut after {end} bytes", raw[:end]
    yield "text instead", b"{not a model}"
    yield "a pickle", b"{\x80\x04\x95."
    for name, change in _xgboost_changes():
        model = json.loads(plain)
        change(model["learner"])
        yield name, ubjson(model)


def _xgboost_changes() -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    def trees(learner):
        return learner["gradient_booster"]["model"]["trees"]

    for name in ("left_children", "right_children"):
        for value in (0, 10**6, -2, 2**30):
            yield f"{name} {value}", lambda learner, name=name, value=value: _set(trees(learner)[0][name], 0, value)
    for value in (99, 10**6, 2**30):
        yield f"column {value}", lambda learner, value=value: _set(trees(learner)[0]["split_indices"], 0, value)
    lists = ("left_children", "right_children", "parents", "split_indices", "split_conditions", "default_left")
    for name in lists:
        yield f"{name} cut", lambda learner, name=name: trees(learner)[0][name].pop()
        yield f"no {name}", lambda learner, name=name: trees(learner)[0].pop(name)
    yield "another output", lambda learner: _set(learner["gradient_booster"]["model"]["tree_info"], 0, 3)
    yield (
        "rounds before the first tree",
        lambda learner: _set(learner["gradient_booster"]["model"]["iteration_indptr"], 0, -100_000),
    )
    yield "fewer rounds", lambda learner: learner["gradient_booster"]["model"]["iteration_indptr"].pop()
    yield "no trees", lambda learner: learner["gradient_booster"]["model"].update(trees=[])
    yield "a tree less", lambda learner: trees(learner).pop()
    yield (
        "other leaves",
        lambda learner: trees(learner)[0].update(split_conditions=[5.0] * len(trees(learner)[0]["split_conditions"])),
    )
    yield "no objective", lambda learner: learner.pop("objective")
    yield "an unknown objective", lambda learner: learner["objective"].update(name="run:program")
    yield "ranks instead of a probability", lambda learner: learner["objective"].update(name="reg:squarederror")
    yield "several classes", lambda learner: learner["learner_model_param"].update(num_class="3")
    yield "fewer columns", lambda learner: learner["learner_model_param"].update(num_feature="1")
    yield "an odd start", lambda learner: learner["learner_model_param"].update(base_score="[9E-1]")
    yield "a linear model", lambda learner: learner["gradient_booster"].update(name="gblinear")
    yield "vectors in the leaves", lambda learner: trees(learner)[0]["tree_param"].update(size_leaf_vector="5")
    yield "more nodes than there are", lambda learner: trees(learner)[0]["tree_param"].update(num_nodes="100000")


def ubjson(value: Any) -> bytes:
    """Universal binary JSON, the form in which bundles keep XGBoost models."""
    if isinstance(value, dict):
        return b"{" + b"".join(_key(name) + ubjson(inner) for name, inner in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b"".join(ubjson(inner) for inner in value) + b"]"
    if isinstance(value, str):
        return b"S" + _key(value)
    if isinstance(value, bool) or value is None:
        return {True: b"T", False: b"F", None: b"Z"}[value]
    if isinstance(value, int):
        return b"L" + value.to_bytes(8, "big", signed=True)
    return b"D" + np.array(value, dtype=">f8").tobytes()


def _key(name: str) -> bytes:
    data = name.encode()
    return b"L" + len(data).to_bytes(8, "big", signed=True) + data
