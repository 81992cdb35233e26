"""Demonstrations that `make` runs."""
