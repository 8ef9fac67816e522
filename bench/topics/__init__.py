"""Durable topics, measured beside a real Pulsar."""
