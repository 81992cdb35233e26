"""Models on disk: cards, weights, other people's formats, in and out."""
