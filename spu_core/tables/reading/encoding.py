"""Detect the encoding of a file and convert it to a clean UTF-8 stream."""

from __future__ import annotations

import codecs
import tempfile
from dataclasses import dataclass, replace
from typing import IO

import numpy as np

from spu_core.errors import TableError
from spu_core.tables.reading.reading_report import Finding, Severity
from spu_core.tables.reading.sources import CHUNK, Upload, text_of

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE = 1 << 16
# Characters that are rare in text: control characters other than tab, line and form feed, carriage return, Ctrl-Z and
# separators.
_CONTROL = bytes(set(range(32)) - {0, 1, 9, 10, 12, 13, 26, 28, 29, 30, 31})


@dataclass(frozen=True)
class TextSource:
    """A seekable stream of UTF-8 without NUL bytes, at its start, and the findings of the conversion."""

    stream: IO[bytes]
    start: int
    size: int
    encoding: str
    findings: tuple[Finding, ...] = ()


def open_text(upload: Upload, encoding: str | None) -> TextSource:
    """The upload as UTF-8; the encoding is detected if it is not given."""
    upload.stream.seek(0)
    head = upload.stream.read(_SAMPLE)
    encoding = encoding or _marked_encoding(head) or _wide_encoding(head)
    if encoding and encoding.startswith(("utf-16", "utf-32")):
        return _transcode(upload, encoding, nul_bytes=0)
    survey = _survey(upload)
    encoding = encoding or _narrow_encoding(upload, survey)
    _refuse_binary(head, upload.name)
    if encoding in ("utf-8", "utf-8-sig") and not survey.nul_bytes and survey.is_utf8:
        start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        return TextSource(upload.stream, start, upload.size, encoding, survey.findings)
    source = _transcode(upload, encoding, survey.nul_bytes)
    return replace(source, findings=(*source.findings, *survey.findings))


def detect_legacy_encoding(sample: bytes) -> str:
    """The most likely legacy encoding for text that is not Unicode."""
    from charset_normalizer import from_bytes

    # Most tools that do not write UTF-8 write Western European text, so other alphabets need clear
    # evidence.
    best = from_bytes(sample, cp_isolation=["cp1252", *_ALPHABETS], threshold=0.2).best()
    name = best.encoding if best else "cp1252"
    if name in _ALPHABETS and _is_mostly_high(sample):
        return name
    return "cp1252" if _decodes(sample, "cp1252") else "latin-1"


# Alphabets other than Latin: their texts consist mostly of high bytes, so a few such bytes are no evidence.
_ALPHABETS = ("cp1251", "cp1253", "cp1255", "cp1256", "shift_jis", "gb18030", "big5", "euc_kr")
_LEAST_HIGH_SHARE = 0.3
_FEWEST_HIGH_BYTES = 10


def _marked_encoding(head: bytes) -> str | None:
    return next((name for mark, name in _BOMS if head.startswith(mark)), None)


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16 without a byte-order mark, recognised by a NUL in every second byte."""
    if (len(head) >= 8 and len(head) % 2 == 0) or len(head) == _SAMPLE:
        even, odd = head[0::2].count(0) / (len(head) / 2), head[1::2].count(0) / (len(head) / 2)
        if odd > 0.4 and even < 0.1:
            return "utf-16-le"
        if even > 0.4 and odd < 0.1:
            return "utf-16-be"
    return None


def _narrow_encoding(upload: Upload, survey: _Survey) -> str:
    """UTF-8 if the bytes are valid, else the most likely legacy encoding."""
    if survey.is_utf8 or _is_mostly_utf8(upload.stream):
        return "utf-8"
    return detect_legacy_encoding(_high_sample(upload.stream))


@dataclass(frozen=True)
class _Survey:
    nul_bytes: int
    is_utf8: bool
    findings: tuple[Finding, ...] = ()


def _survey(upload: Upload) -> _Survey:
    """Collect statistics in one pass over all bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    nul_bytes, is_utf8 = 0, True
    controls = _ControlCharacters()
    upload.stream.seek(0)
    while piece := upload.stream.read(CHUNK):
        controls.look_at(piece)
        nul_bytes += piece.count(0) if 0 in piece else 0
        is_utf8 = is_utf8 and _continues(decoder, piece)
    upload.stream.seek(0)
    if nul_bytes == upload.size:
        raise TableError(f"{upload.name!r} contains only NUL bytes, so its content is lost. Restore it from a copy.")
    return _Survey(nul_bytes, is_utf8 and not decoder.getstate()[0], controls.findings())


class _ControlCharacters:
    """Counts control characters in pieces of a file, with their line numbers.

    >>> controls = _ControlCharacters()
    >>> controls.look_at(b"a,b\\n1,2\\n3,\\x1b[1m\\n")
    >>> controls.findings()[0].lines
    (3,)
    """

    def __init__(self) -> None:
        self.count, self.first, self._line = 0, 0, 1
        self.lines: list[int] = []

    def look_at(self, piece: bytes) -> None:
        """Count the characters of the next piece."""
        signs = np.frombuffer(piece, dtype=np.uint8)
        ends = int(np.count_nonzero(signs == 10))
        # Most files have no control characters but line feeds.
        if int(np.count_nonzero(signs < 32)) > ends and (found := len(piece) - len(piece.translate(None, _CONTROL))):
            lines = enumerate(piece.split(b"\n"), start=self._line)
            odd = [(number, line) for number, line in lines if _has_control(line)]
            self.count += found
            self.first = self.first or next(sign for sign in odd[0][1] if sign in _CONTROL)
            self.lines += [number for number, _ in odd[: 20 - len(self.lines)]]
        self._line += ends

    def findings(self) -> tuple[Finding, ...]:
        """The findings about control characters."""
        if not self.count:
            return ()
        many = "A control character" if self.count == 1 else f"{self.count:,} control characters"
        verb = "stands" if self.count == 1 else "stand"
        text = f"{many} (0x{self.first:02X}) {verb} in line {self.lines[0]}{', …' if len(self.lines) > 1 else ''}."
        advice = "Cells were kept unchanged; remove such characters from the file if they are not intended."
        return (Finding("control_characters", Severity.WARNING, text, advice, lines=tuple(self.lines)),)


def _has_control(line: bytes) -> bool:
    return len(line.translate(None, _CONTROL)) < len(line)


def _continues(decoder: codecs.IncrementalDecoder, piece: bytes) -> bool:
    try:
        # ASCII pieces need no decoding, unless a character was split between pieces.
        if not piece.isascii() or decoder.getstate()[0]:
            decoder.decode(piece)
    except UnicodeDecodeError:
        return False
    return True


def _is_mostly_utf8(stream: IO[bytes]) -> bool:
    """Whether the text is damaged UTF-8: some bytes are invalid, but far more characters are valid."""
    sample = _high_sample(stream)
    text = sample.decode("utf-8", errors="replace")
    wrong = text.count("\ufffd")
    right = sum(character > "\x7f" for character in text) - wrong
    return right >= 4 * wrong


def _high_sample(stream: IO[bytes]) -> bytes:
    """Up to 64 KB of the lines that hold bytes beyond ASCII: only these lines differ between encodings."""
    stream.seek(0)
    lines: list[bytes] = []
    size = 0
    for line in stream:
        if not line.isascii():
            lines.append(line[:_SAMPLE])
            size += len(lines[-1])
            if size >= _SAMPLE:
                break
    stream.seek(0)
    return b"".join(lines)


def _is_mostly_high(sample: bytes) -> bool:
    letters = [byte for byte in sample if byte > 127 or chr(byte).isalpha()]
    high = sum(byte > 127 for byte in letters)
    return high >= _FEWEST_HIGH_BYTES and high >= _LEAST_HIGH_SHARE * len(letters)


def _decodes(sample: bytes, encoding: str) -> bool:
    try:
        sample.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _refuse_binary(head: bytes, name: str) -> None:
    text = head.rstrip(b"\x00")
    # NUL padding can follow a power cut; NULs among other control characters mean binary data.
    if not text or _is_full_of_controls(text) or text.count(0) > 0.5 * len(text):
        raise TableError(f"{name!r} holds binary data, not text; give CSV, parquet or .xlsx.")


def _is_full_of_controls(text: bytes) -> bool:
    """Whether control characters are in many lines; a few of them only become a finding.

    >>> _is_full_of_controls(b"a,b\\n1,\\x1b\\n2,3\\n"), _is_full_of_controls(b"\\x02\\x03\\n\\x04\\n")
    (False, True)
    """
    if len(text.translate(None, _CONTROL)) >= 0.98 * len(text):
        return False
    lines = [line for line in text.splitlines() if line]
    return sum(map(_has_control, lines)) > (len(lines) > 1) + 0.1 * len(lines)


def _transcode(upload: Upload, encoding: str, nul_bytes: int) -> TextSource:
    upload.stream.seek(0)
    decoder = text_of(upload.stream, encoding)
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on in the result
    damaged, line = 0, 1
    shown: list[int] = []
    controls = _ControlCharacters()
    while text := decoder.read(CHUNK):
        if "\ufffd" in text:
            damaged += text.count("\ufffd")
            shown += _lines_with("\ufffd", text, line) if len(shown) < 20 else []
        line += text.count("\n")
        written = text.replace("\x00", "").encode("utf-8", errors="replace")
        controls.look_at(written)
        target.write(written)
    size = target.tell()
    target.seek(0)
    found = controls.findings() if encoding.startswith(("utf-16", "utf-32")) else ()
    findings = [*_damage_finding(damaged, encoding, shown), *_nul_finding(nul_bytes), *found]
    return TextSource(target, 0, size, encoding, tuple(findings))


def _lines_with(mark: str, text: str, first: int) -> list[int]:
    return [first + number for number, line in enumerate(text.split("\n")) if mark in line][:20]


def _damage_finding(damaged: int, encoding: str, lines: list[int]) -> list[Finding]:
    if not damaged:
        return []
    return [
        Finding(
            "undecodable_bytes",
            Severity.WARNING,
            f"{damaged:,} characters are not valid {encoding} and are shown as \ufffd.",
            "Check the lines named here, or set another encoding.",
            lines=tuple(lines[:20]),
        )
    ]


def _nul_finding(nul_bytes: int) -> list[Finding]:
    if not nul_bytes:
        return []
    return [
        Finding(
            "nul_bytes",
            Severity.WARNING,
            f"The file holds {nul_bytes:,} NUL bytes, as after a power cut or an incomplete copy; they were left out.",
            "Rows may be missing there: compare with the original.",
        )
    ]
