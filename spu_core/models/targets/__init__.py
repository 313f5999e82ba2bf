"""Target sources: what a learner is told about each row."""
