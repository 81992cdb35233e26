"""The signed record of an erasure: keys, the envelope, the statement in it, the chain, the pages, and the checks."""
