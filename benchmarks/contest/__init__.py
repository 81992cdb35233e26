"""A fair contest of all methods: `rules.py` declares it, `python benchmarks/contest` holds it."""
