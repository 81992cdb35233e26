"""The paper's recipe at the paper's size, on this machine, as far as that goes without training."""
