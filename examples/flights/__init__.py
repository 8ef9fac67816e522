"""Real flights through SPEED: a PySpark driver and three services in processes of their own."""
