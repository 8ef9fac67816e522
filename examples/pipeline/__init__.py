"""Flights as a stream: replayed, recorded, enriched by services in C++ and Java, counted, and told as alerts."""
