"""Stage 7: embeddings to comparisons, thresholds, rates, distances and intervals."""
