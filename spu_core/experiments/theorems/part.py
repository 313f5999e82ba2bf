"""What the check of one theorem gives: tables to read and plain lists to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spu_core.experiments.result import ResultTable


@dataclass(frozen=True)
class Part:
    """Tables and series of one theorem; `series` belongs under the theorem's own name."""

    tables: tuple[ResultTable, ...]
    series: Mapping[str, Any] = field(default_factory=dict)


def rounded(values: Any, digits: int = 5) -> list[float]:
    """Numbers to store for a chart: more digits than a screen has pixels, few bytes.

    >>> rounded([0.123456789, 1.0])
    [0.12346, 1.0]
    """
    return [round(float(value), digits) for value in values]
