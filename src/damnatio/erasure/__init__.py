"""An erasure request from start to end."""
