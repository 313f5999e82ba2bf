"""Durable storage of datasets, rule sets, runs, jobs and check outcomes in one folder; each save is whole or absent."""

from spu_core.workspace.audits import VERDICTS, AuditRecord, VerdictRecord
from spu_core.workspace.backup import back_up
from spu_core.workspace.check_outcomes import CheckOutcome, FeedbackRecord, Outcome, QueueEntry, QueueRecord
from spu_core.workspace.deletion import DeletionPlan, in_bytes
from spu_core.workspace.disk import Disk
from spu_core.workspace.home import Home, user_hash
from spu_core.workspace.jobs import Attempt
from spu_core.workspace.maintenance import (
    CheckReport,
    Problem,
    StoredObject,
    check,
    collect_garbage,
    list_objects,
    make_backup,
)
from spu_core.workspace.marks import Threshold, ThresholdChange
from spu_core.workspace.records import (
    DatasetRecord,
    ExportRecord,
    FileRecord,
    JobRecord,
    JobStatus,
    OutcomeRecord,
    RuleSetVersion,
    RunRecord,
    ThresholdRecord,
)
from spu_core.workspace.runs import Lineage, RunDraft
from spu_core.workspace.storage_errors import QueueFullError, StaleEditError
from spu_core.workspace.workspace import Workspace

__all__ = [
    "VERDICTS",
    "Attempt",
    "AuditRecord",
    "CheckOutcome",
    "CheckReport",
    "DatasetRecord",
    "DeletionPlan",
    "Disk",
    "ExportRecord",
    "FeedbackRecord",
    "FileRecord",
    "Home",
    "JobRecord",
    "JobStatus",
    "Lineage",
    "Outcome",
    "OutcomeRecord",
    "Problem",
    "QueueEntry",
    "QueueFullError",
    "QueueRecord",
    "RuleSetVersion",
    "RunDraft",
    "RunRecord",
    "StaleEditError",
    "StoredObject",
    "Threshold",
    "ThresholdChange",
    "ThresholdRecord",
    "VerdictRecord",
    "Workspace",
    "back_up",
    "check",
    "collect_garbage",
    "in_bytes",
    "list_objects",
    "make_backup",
    "user_hash",
]
