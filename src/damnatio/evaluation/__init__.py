"""Stage 7: embeddings to comparisons, thresholds, rates, distances and intervals."""

CODE = (
    "evaluation/protocol.py",
    "evaluation/pairings.py",
    "evaluation/comparing.py",
    "evaluation/nonmated.py",
    "evaluation/scanning.py",
    "evaluation/searching.py",
    "evaluation/tails/__init__.py",
    "evaluation/tails/cells.py",
    "evaluation/tails/window.py",
    "evaluation/tails/scan.py",
    "evaluation/tails/zoom.py",
    "evaluation/tails/tail.py",
    "evaluation/thinning.py",
    "evaluation/calibrating.py",
    "evaluation/thresholds.py",
    "evaluation/measuring.py",
    "metrics/distributions.py",
    "metrics/identification.py",
    "metrics/intervals.py",
    "metrics/verification.py",
)
"""The files that decide the numbers of an evaluation. A change to one of them makes stored evaluations stale."""
