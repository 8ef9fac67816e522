"""What a message is, proves, hides and says beyond its envelope (registry_spec/messages.md, M-1 to M-40)."""
