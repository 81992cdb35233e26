"""Stage 4, and the loop that stage 5 fine-tunes with: f*, batches, trunks."""
