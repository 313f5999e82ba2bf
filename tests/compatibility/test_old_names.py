"""Names of earlier versions that still work."""

from spu_core import METHODS, engines
from spu_core.metrics import Difference
from spu_core.training.evaluation import PairedDifference


def test_renamed_members_keep_their_old_names():
    clear = Difference(0.2, 0.1, 0.3, 0.05, p_value=0.001)

    assert clear.can_be_told_apart is clear.is_clear is True
    assert PairedDifference("a", "b", clear, p_holm=0.2).can_be_told_apart is False
    assert METHODS["lightgbm"].words == METHODS["lightgbm"].description
    assert engines.run_here is engines.run_in_process
