"""Memory is estimated before it is allocated, so that a wide table gets a sentence and not a killed process."""

from __future__ import annotations

from spu_core.errors import TrainingError


def check_memory(rows: int, width: int, limit: int | None, purpose: str = "the encoded table") -> None:
    """Refuse an allocation of rows × width float32 numbers that would not fit, before it is made."""
    import psutil

    wanted = 4 * rows * width
    allowed = int(0.8 * psutil.virtual_memory().available) if limit is None else limit
    if wanted > allowed:
        raise TrainingError(
            f"{purpose[0].upper()}{purpose[1:]} needs {wanted / 2**20:,.0f} MB ({rows:,} rows × {width:,} columns), "
            f"but the limit is {allowed / 2**20:,.0f} MB; use fewer rows or columns, or raise memory_limit."
        )
