"""The paper's own numbers, as data: `numbers.csv` and `differences.csv`, and the module that reads them."""
