"""Dates as numbers: nanoseconds since 1970, also for years such as 9999, which 64-bit nanoseconds cannot hold."""

from __future__ import annotations

import numpy as np
import pandas as pd


def stamps(values: pd.Series) -> np.ndarray:
    """Nanoseconds since 1970 as floats, NaN where missing: to order and to draw any date.

    >>> stamps(pd.Series(pd.to_datetime(["1970-01-02", None])))
    array([8.64e+13,      nan])
    >>> bool(stamps(pd.Series(np.array(["9999-12-31"], "M8[s]")))[0] > 2.5e20)
    True
    """
    fine = values.dt.unit == "ns"
    counted = values.dt.as_unit("ns" if fine else "us").astype("int64").to_numpy().astype(np.float64)
    return np.where(values.isna().to_numpy(), np.nan, counted if fine else counted * 1e3)


def moment_bits(values: pd.Series) -> np.ndarray:
    """64 bits that tell moments apart: nanoseconds since 1970, which start anew after the year 2262.

    >>> moment_bits(pd.Series(pd.to_datetime(["1970-01-01 00:00:01"]))).tolist()
    [1000000000]
    """
    if values.dt.unit == "ns":
        return values.astype("int64").to_numpy()
    bits = values.dt.as_unit("us").astype("int64").to_numpy() * np.int64(1000)
    # The mark of a missing date stays what it is in nanoseconds.
    return np.where(values.isna().to_numpy(), np.iinfo(np.int64).min, bits)


def day_of(stamp: float) -> str:
    """The day of a stamp, for people.

    >>> day_of(8.64e13)
    '1970-01-02'
    """
    return str(np.datetime64(int(stamp // 1e3), "us").astype("datetime64[D]"))


def stamp_of(text: str) -> float:
    """The stamp of a date as it is written, with or without a clock.

    >>> stamp_of("1970-01-02 00:00")
    86400000000000.0
    """
    return float(np.datetime64(text.replace(" ", "T"), "us").astype(np.int64)) * 1e3
