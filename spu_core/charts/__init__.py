"""Results as Plotly figures: pure functions, for notebooks and the dashboard alike.

Every chart is a function `…_chart(result, *, theme=LIGHT)`. It changes nothing, contains no table rows, escapes text of
users and has an alternative text: `alt_text(figure)`. Backgrounds are transparent, so a figure fits on any page.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
