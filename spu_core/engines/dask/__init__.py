"""Work on a Dask cluster: `TasksOn` for tables that fit one worker, `TogetherOn` for folders that fit none."""

from spu_core.engines.dask.cluster import Cluster, open_cluster
from spu_core.engines.dask.guard import Deadline
from spu_core.engines.dask.pieces import soft_labels_on
from spu_core.engines.dask.scoring import score_folder_on
from spu_core.engines.dask.tasks import TasksOn
from spu_core.engines.dask.together import TogetherOn

__all__ = ["Cluster", "Deadline", "TasksOn", "TogetherOn", "open_cluster", "score_folder_on", "soft_labels_on"]
