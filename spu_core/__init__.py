"""Soft-label positive-unlabelled learning: metrics, rules, models and evaluation without true negatives.

Names are imported when they are first used, so that `import spu_core` is fast; `__init__.pyi` lists them.
"""

import lazy_loader as _lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
