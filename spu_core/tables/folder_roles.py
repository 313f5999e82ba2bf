"""The roles of a folder's columns: the laws of `Table`, checked on short stand-ins and one pass over few columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from spu_core.tables.copies import FEWEST_ROWS, refuse_copies
from spu_core.tables.folder import TableFolder
from spu_core.tables.roles import Role, check_role_changes, check_roles, parse_roles
from spu_core.tables.table import copy_finding, holder_of, settled, vacated


def settled_values(folder: TableFolder, given: tuple[Any, ...] | None = None) -> TableFolder:
    """The folder with its positive values, given or guessed, in the form of the columns."""
    label, truth = folder.column_with(Role.LABEL), folder.column_with(Role.TRUTH)
    positive = folder.positive_values if given is None else given
    return replace(
        folder,
        positive_values=() if label is None else settled(folder.stand_ins[label], positive, Role.LABEL),
        truth_values=() if truth is None else settled(folder.stand_ins[truth], folder.truth_values, Role.TRUTH),
    )


def with_roles(folder: TableFolder, changes: Mapping[str, Role | str]) -> TableFolder:
    """The same folder with some roles changed; a role that only one column can have moves."""
    parsed = parse_roles(changes, list(folder.column_names))
    check_role_changes(folder.roles, parsed)
    roles = {**folder.roles, **vacated(folder.roles, parsed), **parsed}
    check_roles(roles, folder.stand_ins)  # type: ignore[arg-type]
    same_label = folder.column_with(Role.LABEL) == holder_of(roles, Role.LABEL)
    same_truth = folder.column_with(Role.TRUTH) == holder_of(roles, Role.TRUTH)
    changed = replace(
        folder,
        roles=MappingProxyType({name: roles[name] for name in folder.column_names}),
        positive_values=folder.positive_values if same_label else (),
        truth_values=folder.truth_values if same_truth else (),
    )
    return without_copies(settled_values(changed), parsed)


def without_copies(folder: TableFolder, given: Mapping[str, Role] = MappingProxyType({})) -> TableFolder:
    """The same folder with guessed features that repeat the label or truth ignored; asked-for ones are refused."""
    copies = _copies_of(folder)
    asked = {name: answer for name, answer in copies.items() if given.get(name) is Role.FEATURE}
    refuse_copies(asked, folder.roles)
    if not copies:
        return folder
    found = tuple(copy_finding(name, answer) for name, answer in copies.items())
    roles = {**folder.roles, **dict.fromkeys(copies, Role.IGNORE)}
    return replace(folder, roles=MappingProxyType(roles), findings=(*folder.findings, *found))


def _copies_of(folder: TableFolder) -> dict[str, str]:
    """Features that split the rows exactly as an answer does, each with the answer column that it repeats."""
    answers = [name for role in (Role.LABEL, Role.TRUTH) if (name := folder.column_with(role)) is not None]
    suspects = [name for name in folder.features if _may_copy(folder.stand_ins[name])]
    if not answers or not suspects:
        return {}
    still = {(name, answer): dict[Any, bool]() for answer in answers for name in suspects}
    sides = {answer: np.zeros(2, dtype=np.int64) for answer in answers}
    for part in folder.parts([*answers, *suspects]):
        flags = {folder.column_with(Role.LABEL): part.is_labeled, folder.column_with(Role.TRUTH): part.truth}
        for answer in answers:
            flag = flags[answer]
            assert flag is not None
            sides[answer] += np.bincount(flag, minlength=2)
            still = {
                pair: seen
                for pair, seen in still.items()
                if pair[1] != answer or _agrees(seen, part.frame[pair[0]], flag)
            }
    enough = {answer for answer, counts in sides.items() if counts.min() >= FEWEST_ROWS}
    copies: dict[str, str] = {}
    for (name, answer), seen in still.items():
        if answer in enough and len(set(seen.values())) == 2:
            copies.setdefault(name, answer)
    return copies


def _may_copy(stand_in: pd.Series) -> bool:
    return stand_in.nunique() + bool(stand_in.isna().any()) == 2


def _agrees(seen: dict[Any, bool], values: pd.Series, answer: np.ndarray) -> bool:
    """Whether each value still goes with one side of the answer only; what is seen is kept in `seen`."""
    codes, levels = pd.factorize(values)
    for code in range(-1, len(levels)):
        sides = np.unique(answer[codes == code])
        if not sides.size:
            continue
        key = None if code < 0 else levels[code]
        if sides.size > 1 or seen.setdefault(key, bool(sides[0])) != bool(sides[0]):
            return False
    return True
