"""A graph in the making: nodes and constants with names of their own, far from the names of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spu_core.errors import BundleError


@dataclass
class Graph:
    """Collects nodes; every method returns the name of the value it has added."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    count: int = 0

    def add(self, kind: str, *values: str, domain: str = "", **attributes: Any) -> str:
        """One operator on named values."""
        from onnx import helper

        name = self._fresh()
        self.nodes.append(helper.make_node(kind, list(values), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        from onnx import numpy_helper

        name = self._fresh()
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        from onnx import helper

        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column_input(self, name: str, dtype: Any, words: str) -> str:
        """A named input of shape rows × 1."""
        from onnx import TensorProto, helper

        kind = TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["rows", 1], doc_string=words))
        return name

    def rename(self, value: str, name: str) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"_spu/{name}"))
        return name

    def _fresh(self) -> str:
        self.count += 1
        return f"_spu/{self.count}"


def need_onnx() -> None:
    """The libraries of the extra, or words on how to get them."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise BundleError(
            "ONNX export needs onnx and onnxruntime, which are not installed; "
            "install the extra: pip install 'spu-studio[onnx]'."
        ) from None
