"""Training: folds, cross-fitting, early stopping, tuning, progress, and the comparison of candidates."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
