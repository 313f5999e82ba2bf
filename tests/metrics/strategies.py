"""Random rows for Hypothesis: ties, weights and extreme values included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

soft_values = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), st.floats(0.0, 1.0, allow_subnormal=False))
score_values = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, 1e300, -1e300, 1e-300, 5e-324]),
    st.integers(-3, 3).map(float),
    st.floats(-1e6, 1e6),
)
weight_values = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-3, 1e3))


@st.composite
def rows(draw, weighted=False, smallest=2):
    """(soft_label, score) or (soft_label, score, weight) with positive and negative mass that can be counted."""
    size = draw(st.integers(smallest, 30))
    soft_label = draw(arrays(np.float64, size, elements=soft_values))
    soft_label[0], soft_label[1] = draw(st.floats(0.1, 1.0)), draw(st.floats(0.0, 0.9))
    score = draw(arrays(np.float64, size, elements=score_values))
    if not weighted:
        return soft_label, score
    weight = draw(arrays(np.float64, size, elements=weight_values))
    weight[:2] = 1.0
    return soft_label, score, weight
