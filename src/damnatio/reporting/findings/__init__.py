"""The paper's eight findings (V-A) as predicates over the results of a run. One file holds one finding."""
