"""What scripts/fit_systems.py is made of: one module a table, each with the formula of harness/simulate and its fit."""
