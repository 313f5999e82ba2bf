"""Whether the workers have what a fit needs, in the releases that we have."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spu_core.errors import EngineError

if TYPE_CHECKING:
    from distributed import Client

# xgboost comes under two names; whichever we have ourselves is asked for.
PACKAGES = (
    "spu-studio",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "lightgbm",
    "xgboost",
    "xgboost-cpu",
    "dask",
    "distributed",
)
_MISSING = "missing"


def check_versions(client: Client) -> None:
    """Refuse a cluster whose workers lack a package, or would compute with another release of it."""
    ours = own_versions()
    # Others may join meanwhile: all questions go to those who were there at the first.
    theirs = {worker: {"python": version} for worker, version in client.run(platform.python_version).items()}
    for package in ours.keys() - {"python"}:
        for worker, version in _on_workers(client, package, list(theirs)).items():
            theirs[worker][package] = version
    problems = differences(ours, theirs)
    if problems:
        raise EngineError("The workers cannot run this: " + " ".join(problems))


def own_versions() -> dict[str, str]:
    """Python and each package that is installed here."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A sentence for each package that differs somewhere.

    >>> differences({"numpy": "2.4.6"}, {"tcp://a": {"numpy": "2.4.6"}, "tcp://b": {"numpy": "missing"}})
    ['numpy is missing on tcp://b; install 2.4.6 there.']
    """
    sentences = []
    for package, version in ours.items():
        for found in sorted({worker[package] for worker in theirs.values()} - {version}):
            where = [address for address, worker in theirs.items() if worker[package] == found]
            is_ = "missing" if found == _MISSING else found
            sentences.append(f"{package} is {is_} on {_some(where)}; install {version} there.")
    return sentences


def _on_workers(client: Client, package: str, workers: list[str]) -> dict[str, str]:
    """The release of a package on these workers. Only the standard library is asked, so that any worker can answer."""
    answers: dict[str, Any] = client.run(importlib.metadata.version, package, workers=workers, on_error="return")
    return {worker: answer if isinstance(answer, str) else _MISSING for worker, answer in answers.items()}


def _some(addresses: list[str]) -> str:
    return addresses[0] if len(addresses) == 1 else f"{addresses[0]} and {len(addresses) - 1} more"
