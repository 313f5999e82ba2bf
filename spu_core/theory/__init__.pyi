# Public names: `__init__.py` loads each when it is first used, and type checkers read this file.
from .monotone_bound import MonotoneBound as MonotoneBound
from .monotone_bound import MonotoneLink as MonotoneLink
from .monotone_bound import estimate_monotone_link as estimate_monotone_link
from .monotone_bound import noisy_monotone_bound as noisy_monotone_bound
from .prior import PriorEstimate as PriorEstimate
from .prior import estimate_prior as estimate_prior
from .scar_link import AdmissibleRegion as AdmissibleRegion
from .scar_link import ScarLink as ScarLink
