"""The versions of this program and of the libraries it uses; they are stored with every run and bundle."""

from __future__ import annotations

__version__ = "0.2.0"
_PACKAGES = ("numpy", "pandas", "scikit-learn", "lightgbm", "xgboost", "xgboost-cpu", "torch")


def library_versions() -> dict[str, str]:
    """This program, Python and the numeric libraries that are installed, without importing any of them.

    >>> sorted(library_versions())[:2]
    ['lightgbm', 'numpy']
    """
    # Imported here: they take 25 ms, and every `import spu_core` loads this module.
    from importlib.metadata import PackageNotFoundError, version
    from platform import python_version

    found = {"spu-studio": __version__, "python": python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
