"""Soft-label positive-unlabelled learning: metrics, rules, models and evaluation without a single true negative."""

__version__ = "0.1.0"
