"""Stage 4: f*, and the training loop, with which stage 5 fine-tunes."""
