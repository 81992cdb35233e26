"""Stage 8: numbers to tables, figures and one page."""
