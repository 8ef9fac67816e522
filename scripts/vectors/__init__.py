"""The vectors of the contract, made by the reference: bytes that must be accepted, and bytes that must be refused.

Everything is fixed (keys, nonces, times), so a second run writes the same bytes. Each case names the bug it
catches. 64-bit numbers are written as hexadecimal text; values as described in registry_spec/README.md.
"""
