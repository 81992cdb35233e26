"""Above the pipeline: what a recipe will take, and where its stages run."""
