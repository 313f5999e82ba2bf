"""Checks of how reliable a result is; they need trained models, audited rows or outcomes of checks."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
