"""Durable storage of datasets, rule sets, runs, jobs and check outcomes in one folder; each save is whole or absent."""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
