"""Reading polluted files beside other readers, reading a million rows against plain pandas, and detectors against ours.

`python -m tests.benchmarks reading:readers` judges readers on our own corpus, or on the one in the folder that
`SPU_CORPUS` names: `csv/NAME` with `clean/NAME` as it should be read. `reading:grid` judges them on one table with a
fault in every line and column in turn (half an hour for all readers). `reading:speed` measures speed only.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean
from types import ModuleType

import numpy as np
import pandas as pd

from spu_core.tables import Table, read_table
from spu_core.tables.reading.dialect import guess_dialect
from spu_core.tables.reading.encoding import detect_legacy_encoding

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent))
from tests.benchmarks.harness import BenchRow, alternate, peak_memory_of, print_table  # noqa: E402
from tests.benchmarks.pollution import Polluted, corpus, grid, read_corpus  # noqa: E402
from tests.benchmarks.readers import by_kind, print_readers  # noqa: E402

PARTS = ("readers", "grid", "speed")


def rows(*parts: str) -> Iterator[BenchRow]:
    """How right our reader is, and how fast."""
    chosen = parts or ("readers", "speed")
    folder = os.environ.get("SPU_CORPUS")
    if "readers" in chosen:
        yield from _reader_rows("polluted files", read_corpus(Path(folder)) if folder else corpus())
    if "grid" in chosen:
        yield from _reader_rows("one table, a fault in every place", grid())
    if "speed" in chosen:
        yield from _speed_rows()


def _reader_rows(name: str, files: list[Polluted]) -> list[BenchRow]:
    ours = print_readers(files)["ours"]
    return [
        BenchRow(f"{name}, mean of all files", mean(ours.values()), 9.9, "at least", "of 10"),
        BenchRow(f"{name}, mean of all kinds", mean(by_kind(ours, files).values()), 9.8, "at least", "of 10"),
    ]


def _speed_rows() -> list[BenchRow]:
    """CPU and peak memory of reading a CSV of a million rows and thirty columns, as multiples of pandas.read_csv."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.csv"
        write_million(path)
        seconds = alternate({"pandas": lambda: pd.read_csv(path), "ours": lambda: read_table(path)}, repeats=3)
        # Both children import the same libraries, so that only the reading differs.
        imports = "import pandas as pd\nfrom spu_core.tables import read_table\n"
        plain = peak_memory_of(f"{imports}table = pd.read_csv({str(path)!r})")
        ours = peak_memory_of(f"{imports}table = read_table({str(path)!r})")
        table = read_table(path)
        stored = Path(folder) / "million.parquet"
        later = alternate(
            {
                "profile": table.profile,
                "write": lambda: table.to_parquet(stored),
                "read again": lambda: Table.from_parquet(stored),
            },
            repeats=3,
        )
    return [
        BenchRow("read 1e6 × 30, CPU against pandas.read_csv", seconds["ours"] / seconds["pandas"], 1.6, "at most"),
        BenchRow("read 1e6 × 30, peak memory against pandas.read_csv", ours / plain, 1.2, "at most"),
        BenchRow("keep 1e6 × 30 as typed parquet, CPU", later["write"] / seconds["pandas"], 1.0, "at most"),
        BenchRow("read the typed parquet again, CPU", later["read again"] / seconds["pandas"], 0.5, "at most"),
        BenchRow("profile 1e6 × 30", later["profile"], 10.0, "at most", "s"),
    ]


def write_million(path: Path, size: int = 1_000_000) -> None:
    """Ids, decimals, whole numbers, levels with gaps, a label and a date: the columns that analysts bring."""
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {"user_id": np.arange(size)}
    columns |= {f"x{n}": rng.normal(size=size).round(4) for n in range(14)}
    columns |= {f"n{n}": rng.integers(0, 10 ** (n % 5 + 1), size) for n in range(8)}
    columns |= {f"c{n}": rng.choice(["red", "green", "blue", "dark yellow", "NA"], size) for n in range(5)}
    columns |= {"label": (rng.random(size) < 0.02).astype(int)}
    columns |= {"day": np.datetime64("2024-01-01") + rng.integers(0, 300, size).astype("timedelta64[D]")}
    pd.DataFrame(columns).to_csv(path, index=False)


def separator_figures() -> dict[str, tuple[int, int]]:
    """For each sniffer: files of the messy corpus whose separator it finds, and files it was shown."""
    texts = _texts_with_separators()
    found = {}
    for name, sniff in SNIFFERS.items():
        right = sum(_answer(sniff, text) == separator for text, separator in texts)
        found[name] = (right, len(texts))
    return found


def sniffing_seconds() -> dict[str, float]:
    """CPU seconds of each sniffer on the first 64 KB of a wide table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.csv"
        write_million(path, size=1_000)
        text = path.read_text()[: 1 << 16]
    return alternate({name: lambda sniff=sniff: sniff(text) for name, sniff in SNIFFERS.items()}, repeats=3)


def encoding_figures() -> dict[str, tuple[int, int]]:
    """For each detector: legacy-encoded samples that it decodes to the right text, and samples it was shown."""
    samples = _legacy_samples()
    found = {}
    for name, detect in DETECTORS.items():
        right = sum(_decodes_to(detect, data, text) for data, text in samples)
        found[name] = (right, len(samples))
    return found


def _sniff_by_clevercsv(text: str) -> str | None:
    import clevercsv

    dialect = clevercsv.Sniffer().sniff(text)
    return dialect.delimiter if dialect else None


SNIFFERS: dict[str, Callable[[str], str | None]] = {
    "ours": lambda text: guess_dialect(text).separator,
    "csv.Sniffer (also pandas sep=None)": lambda text: csv.Sniffer().sniff(text).delimiter,
    "clevercsv": _sniff_by_clevercsv,
}


def _detect_by_charset_normalizer(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    return best.encoding if best else "ascii"


def _detect_by_chardet(data: bytes) -> str:
    import chardet

    return chardet.detect(data)["encoding"] or "ascii"


DETECTORS: dict[str, Callable[[bytes], str]] = {
    "ours (charset-normalizer, Latin unless plainly not)": detect_legacy_encoding,
    "charset-normalizer": _detect_by_charset_normalizer,
    "chardet": _detect_by_chardet,
}

_LEGACY = {
    "cp1252": [
        "name,stadt\nJürgen,Köln\nBjörn,Århus\n", "nom,ville\nÉlodie,Orléans\nFrançois,Besançon\n",
        "nombre,ciudad\nJosé,Málaga\nÍñigo,Logroño\n", "nome,cidade\nJoão,São Paulo\nInês,Évora\n",
        "item,price\nbook,5 €\npen,2 €\n", "name,note\nAnn,“quoted”\nBob,it’s\n", "id,name\n1,Zoë\n2,Ann\n3,Bob\n",
        "id,temp\n1,20 °C\n2,22 °C\n", "Größe;Gewicht\n1,5;2,5\n",
    ],
    "cp1251": ["имя,город\nАнна,Москва\nБорис,Казань\nОлег,Пермь\n", "код;значение\n1;да\n2;нет\n3;неизвестно\n"],
    "cp1253": ["όνομα,πόλη\nΆννα,Αθήνα\nΓιώργος,Πάτρα\nΕλένη,Βόλος\n"],
    "shift_jis": ["名前,都市\n太郎,東京\n花子,大阪\n次郎,名古屋\n"],
    "gb18030": ["姓名,城市\n王伟,北京\n李娜,上海\n张敏,广州\n"],
    "euc_kr": ["이름,도시\n민수,서울\n지영,부산\n현우,대구\n"],
}  # fmt: skip


def _legacy_samples() -> list[tuple[bytes, str]]:
    """Each text as it is and twenty times over: detectors differ most on short files."""
    return [
        (text.encode(encoding), text)
        for encoding, texts in _LEGACY.items()
        for once in texts
        for text in (once, once * 20)
    ]


def _decodes_to(detect: Callable[[bytes], str], data: bytes, text: str) -> bool:
    return data.decode(detect(data), errors="replace") == text


def _answer(sniff: Callable[[str], str | None], text: str) -> str | None:
    try:
        return sniff(text)
    except (csv.Error, ValueError, IndexError, TypeError):
        return None


def _texts_with_separators() -> list[tuple[str, str]]:
    """The messy files that are text of more than one column, with the separator that their author wrote."""
    corpus = _messy_files()
    files = [
        *corpus.dialects(),
        *corpus.layouts(),
        *corpus.ragged(),
        *corpus.cells(),
        *corpus.columns(),
        *corpus.dates(),
    ]
    texts = []
    for file in files:
        if file.error or "separator" in file.options or "one_column" in file.findings:
            continue
        text = file.content.decode()
        header = text.lstrip("\r\n").splitlines()[0]
        texts.append((text, file.dialect.get("separator") or (";" if ";" in header else ",")))
    return texts


def _messy_files() -> ModuleType:
    path = HERE.parent.parent / "tables" / "reading" / "messy_files.py"
    spec = importlib.util.spec_from_file_location("messy_files", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["messy_files"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    for figures in (separator_figures(), encoding_figures()):
        for name, (right, shown) in figures.items():
            print(f"{name}: {right} of {shown}")
    for name, seconds in sniffing_seconds().items():
        print(f"{name}: {seconds * 1000:.1f} ms")
    print_table(_speed_rows())
