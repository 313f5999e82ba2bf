"""Metrics on plain arrays. Arguments come in the order (belief, model output).

A function ending in `_score` returns one number; higher is better, except for FPR_SPU. A function ending in `_interval`
returns the same number with a confidence interval (`Interval`).
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
