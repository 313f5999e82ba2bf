"""A fitted model as plain data: a JSON-able description and named blobs (bytes or number arrays), never pickle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from spu_core.errors import BundleError
from spu_core.models.features import Features

Blob: TypeAlias = bytes | np.ndarray
State: TypeAlias = tuple[dict[str, Any], dict[str, Blob]]


class Model(Protocol):
    """Whatever a method leaves behind: it scores rows, and can be written down."""

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        """One score in [0, 1] per row; higher means more likely positive."""
        ...

    def to_state(self) -> State:
        """(description with its `kind`, blobs); `model_from_state` brings the model back, equal to the bit."""
        ...


_LOADERS: dict[str, Callable[[dict[str, Any], Mapping[str, Blob]], Model]] = {}


def loads(kind: str) -> Callable[[Any], Any]:
    """Class decorator: states of this kind are read by the class's `from_state`."""

    def register(cls: Any) -> Any:
        _LOADERS[kind] = cls.from_state
        return cls

    return register


def model_from_state(state: State) -> Model:
    """The model of a state made by `to_state`."""
    import spu_core.models.registry  # noqa: F401  (registers every kind of model)

    description, blobs = state
    kind = description.get("kind")
    if kind not in _LOADERS:
        raise BundleError(f"A model of kind {kind!r} is not known; known are {', '.join(sorted(_LOADERS))}.")
    return _LOADERS[kind](description, blobs)


def pack(parts: Sequence[Model]) -> State:
    """Several models as one state: blobs of part 2 are called `2/…`."""
    states = [part.to_state() for part in parts]
    blobs = {f"{place}/{name}": blob for place, (_, own) in enumerate(states) for name, blob in own.items()}
    return {"parts": [description for description, _ in states]}, blobs


def unpack(description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> list[Model]:
    """The models of a packed state."""
    parts = []
    for place, part in enumerate(description["parts"]):
        start = f"{place}/"
        own = {name.removeprefix(start): blob for name, blob in blobs.items() if name.startswith(start)}
        parts.append(model_from_state((part, own)))
    return parts
