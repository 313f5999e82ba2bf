"""Whole numbers written with leading zeros (007, 00501), found in the bytes of a file before anything is parsed."""

from __future__ import annotations

import numpy as np

# Pieces overlap by this much, so that a cell cut in two is seen whole in the next piece.
OVERLAP = 64
_LONGEST = 24
# Small enough to stay in the cache: twice as fast as whole megabytes.
_STRIDE = 1 << 16
_ZERO = ord("0")
_BLANK = ord(" ")


class CodeCells:
    """Looks for cells such as 007 in pieces of a file; a parser that reads whole numbers would lose their zeros.

    It may take part of a text for a code, which only costs time; it never misses a code.

    >>> cells = CodeCells(",", '"')
    >>> cells.look_at(b"1,0,0.5\\n05/01/2024,2\\n"), cells.look_at(b"7,007\\n")
    (False, True)
    """

    def __init__(self, separator: str, quote: str) -> None:
        self._separator, self._quote = ord(separator), ord(quote or separator)
        self._ends = np.zeros(256, dtype=bool)
        self._ends[: _BLANK + 1] = self._ends[[self._separator, self._quote]] = True
        self._inner = np.zeros(256, dtype=bool)
        self._inner[list(b"0123456789abcdefABCDEFxX")] = True
        self._starts = np.empty(_STRIDE, dtype=bool)
        self._other = np.empty(_STRIDE, dtype=bool)
        self._carry = b"\n"
        self.found = False

    def look_at(self, piece: bytes) -> bool:
        """Take the next piece; whether a code was found so far."""
        if not self.found:
            joined = self._carry + piece
            data, quoted = np.frombuffer(joined, dtype=np.uint8), self._quote in joined
            self.found = any(self._in_stride(data, at, quoted) for at in range(0, data.size - 2, _STRIDE))
            self._carry = data[-OVERLAP:].tobytes()
        return self.found

    def finish(self) -> bool:
        """Whether a code was found; a cell at the very end of the file counts as well."""
        return self.look_at(b"\n\n")

    def _in_stride(self, data: np.ndarray, at: int, quoted: bool) -> bool:
        """Whether a code starts in one stride: a zero after the start of a cell, and a figure or letter after it."""
        after = data[at + 2 : at + 2 + _STRIDE]
        before, first = data[at : at + after.size], data[at + 1 : at + 1 + after.size]
        starts, other = self._starts[: after.size], self._other[: after.size]
        np.less_equal(before, _BLANK, out=starts)
        starts |= np.equal(before, self._separator, out=other)
        if quoted:
            starts |= np.equal(before, self._quote, out=other)
        starts &= np.equal(first, _ZERO, out=other)
        starts &= np.greater_equal(after, _ZERO, out=other)
        if self._separator >= _ZERO:
            starts &= np.not_equal(after, self._separator, out=other)
        return bool(starts.any()) and self._any_code(data, np.flatnonzero(starts) + at + 1)

    def _any_code(self, data: np.ndarray, zeros: np.ndarray) -> bool:
        """Whether one of the zeros opens a cell of figures only; 05/01/2024 and "Room 05" are none."""
        before = data[zeros - 1]
        blank = (before <= _BLANK) & (before != self._separator) & (before != 10) & (before != 13)
        zeros = zeros[~blank | self._ends[data[np.maximum(zeros - 2, 0)]]]
        for step in range(1, _LONGEST):
            # What reaches beyond the piece is looked at again with the next one.
            zeros = zeros[zeros + step < data.size]
            sign = data[zeros + step]
            if step > 1 and self._ends[sign].any():
                return True
            zeros = zeros[self._inner[sign]]
            if not zeros.size:
                return False
        return True
