"""Outcomes of checks: review queues, outcome files, ratios, and feedback into the data."""
