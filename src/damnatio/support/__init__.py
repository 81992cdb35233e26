"""Support for every stage and part: tables, arrays, files, manifests, registries, errors, progress, devices."""
