"""Trust: what needs training or audited rows before a result may be believed."""

from __future__ import annotations

from spu_core.trust.echo import EchoReport, beyond_rules, echo_check
from spu_core.trust.sensitivity import (
    Sensitivity,
    belief_sensitivity,
    retrained_sensitivity,
    shifted_labels,
)

__all__ = [
    "EchoReport",
    "Sensitivity",
    "belief_sensitivity",
    "beyond_rules",
    "echo_check",
    "retrained_sensitivity",
    "shifted_labels",
]
