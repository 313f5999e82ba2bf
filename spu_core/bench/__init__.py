"""A benchmark of methods: tables with a known class × ways of labelling × rule sets × methods.

Order of imports: `table_spec` → `cells` → `adapters` → `runner` → `report`, `diagram`. The truth labels rows and scores
test rows; no method but the oracle is given it.
"""
