"""The relation between SPU metrics and true metrics, on plain arrays: Theorems 2 and 4, the class prior, Appendix A."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
