"""The relation between SPU metrics and true metrics, on plain arrays: Theorems 2 and 4, the class prior, Appendix A."""

from spu_core.theory.monotone_bound import (
    MonotoneBound,
    MonotoneLink,
    estimate_monotone_link,
    noisy_monotone_bound,
)
from spu_core.theory.prior import PriorEstimate, estimate_prior
from spu_core.theory.scar_link import AdmissibleRegion, ScarLink

__all__ = [
    "AdmissibleRegion",
    "MonotoneBound",
    "MonotoneLink",
    "PriorEstimate",
    "ScarLink",
    "estimate_monotone_link",
    "estimate_prior",
    "noisy_monotone_bound",
]
