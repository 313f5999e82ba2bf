"""The code that computes the paper's tables and theorems. Only `Experiment.run` and `.claims` import it.

They load boosters, torch and data sets. Stored results are read without them (`spu_core.experiments.stored_result`).
"""
