"""Tiny images whose class can be seen, for runs in seconds on a computer without the data."""

from __future__ import annotations

import numpy as np

from spu_core.experiments.runners.images import ImageSet

SIDE = 8


def tiny_images(name, folder=None, *, each=60, test=20):
    """Ten classes of grey 8×8 images: a bright bar whose place tells the class."""
    rng = np.random.default_rng(len(name))

    def draw(count):
        classes = np.repeat(np.arange(10), count).astype(np.uint8)
        images = rng.integers(0, 120, (classes.size, SIDE, SIDE))
        images[np.arange(classes.size), classes % SIDE] += 100
        images[classes >= SIDE, :, 0] += 100
        return images.reshape(classes.size, -1).astype(np.uint8), classes

    return ImageSet(name, *draw(each), *draw(test))
