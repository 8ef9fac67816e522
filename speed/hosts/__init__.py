"""Nodes of two hosts reach each other as ``node@host`` (registry_spec/hosts.md): speedd opens the gateway."""
