"""Ad conversions: users who disabled tracking may have bought, but nobody saw it (the paper's Section 7.1).

A conversion is labelled only where tracking is on. What everybody leaves on the site, such as a filled cart or a return
visit, is the soft evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.tables.roles import Role
from spu_core.tables.simulators.common import category, squashed, table_of
from spu_core.tables.table import Table

ROLES = {"user": Role.ID, "conversion_seen": Role.LABEL, "converted": Role.TRUTH}


@dataclass(frozen=True, kw_only=True)
class AdsConfig:
    """Everything that decides the exposures; two equal configs give equal data.

    `conversion_rate` is met on average; `tracking_off` is the share of untracked users of phones and of computers;
    `reported` is the chance that a tracked conversion reaches the advertiser.
    """

    users: int = 8_000
    seed: int = 0
    conversion_rate: float = 0.06
    tracking_off_phone: float = 0.75
    tracking_off_computer: float = 0.25
    reported: float = 0.6
    cart_given_conversion: float = 0.8
    cart_otherwise: float = 0.05

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in ("users", "seed"):
                check_share(value, name, TableError, closed=True)
        if self.users < 1:
            raise TableError(f"users must be at least 1, got {self.users}.")


def simulate_ads(config: AdsConfig | None = None) -> Table:
    """Exposed users with label (conversion seen) and truth (converted).

    >>> table = simulate_ads(AdsConfig(users=100))
    >>> table.column_with("label"), table.column_with("truth"), len(table)
    ('conversion_seen', 'converted', 100)
    """
    config = config or AdsConfig()
    rng = np.random.default_rng([20, config.seed])
    converts = rng.random(config.users) < config.conversion_rate
    frame = _features(config, converts, rng)
    is_tracked = frame["tracking"].to_numpy() == "tracked"
    frame["conversion_seen"] = (converts & is_tracked & (rng.random(config.users) < config.reported)).astype(int)
    frame["converted"] = converts.astype(int)
    return table_of(frame, "ads_conversion", ROLES)


def _features(config: AdsConfig, converts: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    size, buys, noise = converts.size, converts * 1.0, lambda: rng.standard_normal(converts.size)
    device = category(["phone", "computer"], [0.6, 0.4], size, rng)
    off = np.where(device == "phone", config.tracking_off_phone, config.tracking_off_computer)
    cart = np.where(converts, config.cart_given_conversion, config.cart_otherwise)
    interest = 0.8 * buys + noise()
    return pd.DataFrame(
        {
            "user": "u" + pd.Series(np.arange(size)).astype("str").str.zfill(6),
            "device": device,
            "tracking": pd.Series(np.where(rng.random(size) < off, "refused", "tracked"), dtype="str"),
            "campaign": category(["search", "social", "video", "banner"], [0.3, 0.35, 0.15, 0.2], size, rng),
            "hour": rng.integers(0, 24, size),
            "exposures": 1 + rng.poisson(1.5, size),
            "clicks": rng.poisson(np.exp(-1.2 + 0.5 * interest)),
            "dwell_seconds": np.exp(3.0 + 0.5 * interest + 0.6 * buys + 0.5 * noise()).round(0).astype(int),
            "pages_viewed": 1 + rng.poisson(np.exp(0.5 + 0.35 * interest)),
            "cart_added": (rng.random(size) < cart).astype(int),
            "return_visits": rng.poisson(0.3 + 0.9 * buys),
            "past_purchases": rng.poisson(np.exp(-0.6 + 0.9 * buys + 0.4 * noise())),
            "price_shown": np.exp(3.5 + 0.5 * noise()).round(2),
            "discount": category(["no", "small", "large"], [0.6, 0.25, 0.15], size, rng),
            "newsletter": (rng.random(size) < squashed(-1.3 + 0.5 * interest)).astype(int),
        }
    )
