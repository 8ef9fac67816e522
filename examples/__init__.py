"""Examples: each folder is a complete program that uses the public API only."""
