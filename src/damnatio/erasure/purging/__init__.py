"""The purge: exactly what the plan says, step by step, with a journal from which a killed purge goes on."""
