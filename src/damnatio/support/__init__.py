"""What every room uses: tables, arrays, files, registries, errors, progress, devices."""
