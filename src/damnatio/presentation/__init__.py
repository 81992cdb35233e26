"""How results look: tables, figures and the page that holds them."""
