"""Rates, thresholds and distances: score arrays in, numbers out. NumPy alone, so that an auditor can read
and run it without a model.

The conventions, everywhere: a comparison is accepted at score >= threshold; tied scores stand or fall together; a rate
is a fraction; a rate of nothing is NaN.
"""
