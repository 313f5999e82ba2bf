"""Which versions decide what a training gives and a model says; kept with every run and bundle."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from platform import python_version

from spu_core import __version__

_PACKAGES = ("numpy", "pandas", "scikit-learn", "lightgbm", "xgboost", "xgboost-cpu", "torch")


def library_versions() -> dict[str, str]:
    """This program, Python and the numeric libraries that are installed, without importing any of them.

    >>> sorted(library_versions())[:2]
    ['lightgbm', 'numpy']
    """
    found = {"spu-studio": __version__, "python": python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
