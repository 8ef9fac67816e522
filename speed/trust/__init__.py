"""What messages are trusted with: keys of providers, schemas, tokens, audit, a node's policy (M-18, M-26 to M-31).

The I/O around ``speed.message``; libraries of providers are imported when their URI is used.
"""
