"""Orders that a gateway passes on without being able to read them; see README.md."""
