"""Stage 5: a method alters f* so that it forgets a forget set, by fine-tuning or in closed form."""
