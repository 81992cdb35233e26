"""Rates, thresholds and distances as functions of score arrays. They need NumPy only, so that an auditor can read and
run them without a model.

Everywhere, a comparison is accepted if its score >= the threshold; tied scores are accepted or rejected together; a
rate is a fraction; the rate of an empty set is NaN.
"""

from damnatio.metrics.verification import acceptance_rate, calibrate, equal_error_rate, roc, threshold_at, tmr_at_fmr

__all__ = ["acceptance_rate", "calibrate", "equal_error_rate", "roc", "threshold_at", "tmr_at_fmr"]
