"""Whether bytes of a person are left in files: `scan.scan_store` looks, `verdicts` says what the answer means."""
