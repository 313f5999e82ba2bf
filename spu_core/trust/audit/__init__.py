"""Audits: draw rows to check by hand, read the verdicts, and estimate the true figures."""
