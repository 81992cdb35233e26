"""How a recipe is run: here, on several GPUs or by Slurm; what is done, what failed, and the report at the end."""
