"""The plan of an erasure: what holds the person, what the purge will do, what it cannot reach. Nothing is deleted."""
