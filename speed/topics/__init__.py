"""Durable topics: messages that are kept for subscriptions, hosted by speedd, used by any node."""
