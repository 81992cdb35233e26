"""Stage 8: turns numbers into tables, figures and one page."""
