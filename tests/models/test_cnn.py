"""The convolutional network for pixel columns; its tests need the extra `vision`."""

import builtins

import numpy as np
import pytest

from spu_core.errors import TrainingError
from spu_core.models import METHODS, Features, FitMonitor, SoftCnn, StopRule, TrainingRows, model_from_state


def stripes(count=160, side=8):
    """Images with a bright left or right half, and how strongly we believe in the left."""
    rng = np.random.default_rng(0)
    left = rng.random(count) < 0.5
    images = rng.normal(size=(count, side, side))
    images[left, :, : side // 2] += 2
    images[~left, :, side // 2 :] += 2
    return images.reshape(count, -1), np.where(left, 0.8, 0.1)


def test_without_torch_it_says_what_to_install(monkeypatch):
    original = builtins.__import__

    def no_torch(name, *args, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    X, soft = stripes(20)

    with pytest.raises(TrainingError, match=r"needs torch, which is not installed; install the extra: pip install"):
        SoftCnn().fit(X, soft)


@pytest.mark.vision
def test_it_learns_repeats_itself_and_comes_back_from_its_state():
    pytest.importorskip("torch")
    X, soft = stripes()
    settings = {"rounds": 6, "batch_rows": 16, "first_stride": 1}

    model, again = (SoftCnn(**settings).fit(X, soft) for _ in range(2))

    score = model.predict_proba(X)[:, 1]
    assert np.array_equal(score, again.predict_proba(X)[:, 1])
    assert score[soft > 0.5].mean() > score[soft < 0.5].mean() + 0.2
    loaded = model_from_state(model.to_state())
    assert np.array_equal(loaded.score_rows(Features.of(X.astype(np.float32))), score)


@pytest.mark.vision
def test_columns_that_make_no_image_are_refused():
    pytest.importorskip("torch")

    with pytest.raises(TrainingError, match="10 pixel columns make no square image"):
        SoftCnn().fit(np.zeros((20, 10)), np.linspace(0, 1, 20))


@pytest.mark.vision
def test_it_stops_early_and_keeps_the_best_round():
    pytest.importorskip("torch")
    X, soft = stripes()
    rows = TrainingRows(Features.of(X.astype(np.float32)), soft, np.zeros(len(soft), dtype=bool))
    losses = []
    monitor = FitMonitor(on_progress=lambda progress: losses.append(progress.loss))
    settings = {"rounds": 12, "batch_rows": 16, "first_stride": 1, "learning_rate": 0.1}

    stop = StopRule(rows.take(np.arange(120, 160)), patience=2)
    model = METHODS["cnn"].fit(rows.take(np.arange(120)), settings, monitor=monitor, stop=stop)

    told = [loss for loss in losses if loss is not None]
    assert model.rounds_ == int(np.argmin(told)) + 1
    assert len(told) == min(12, model.rounds_ + 2)


@pytest.mark.vision
def test_a_wish_to_stop_is_heard_inside_a_pass():
    """One pass of this takes many seconds; the caller is asked before it ends."""
    pytest.importorskip("torch")
    X, soft = stripes(3000, side=28)

    class EnoughError(Exception):
        pass

    def tired(progress):
        assert progress.iteration == 0
        raise EnoughError

    with pytest.raises(EnoughError):
        SoftCnn(rounds=1, width=64, batch_rows=16, first_stride=1).fit_rows(
            Features.of(X.astype(np.float32)), soft, monitor=FitMonitor(on_progress=tired)
        )
