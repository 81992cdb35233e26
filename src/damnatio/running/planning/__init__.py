"""What a recipe will take, before anything runs: images, steps, memory, disk and hours."""
