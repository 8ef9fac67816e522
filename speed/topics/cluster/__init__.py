"""Durable topics whose messages lie in an Apache Pulsar cluster (``[topics] backend = "pulsar://…"``)."""
