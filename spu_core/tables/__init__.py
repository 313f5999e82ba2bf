"""From an upload to a table: decoding, dialect, types, roles, profile, samples and simulators.

Names are imported when they are first used, so that supervisor processes do not load pandas.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
