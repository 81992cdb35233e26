"""Rates, thresholds and distances as functions of score arrays. They need NumPy only, so that an auditor can read and
run them without a model.

Everywhere, a comparison is accepted if its score >= the threshold; tied scores are accepted or rejected together; a
rate is a fraction; the rate of an empty set is NaN.
"""
