"""A benchmark of methods: tables with a known class × ways of labelling × rule sets × methods.

Order of imports: `cells` → `adapters` → `runner` → `report` → `page`; `advice` uses the report of the cells that are
like a table at hand. The truth labels rows and scores test rows; no method but the oracle is given it.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
