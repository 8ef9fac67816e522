"""A migration of real records between real servers, and what envelopes cost: ``scripts/migration``."""
