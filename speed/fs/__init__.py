"""The only code that opens files: registry, lanes, bells, key files."""
