"""Export: bundles, scoring, drift hints, ONNX, model card, report, and logging to an MLflow server.

Names are loaded when they are first used, so that writing a CSV file loads no models and scoring loads no charts.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
