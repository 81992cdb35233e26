"""Models: cards, files in and out, and the inputs of a network."""
