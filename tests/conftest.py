"""Settings for all tests: nothing is judged by how long it takes on a busy machine."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
