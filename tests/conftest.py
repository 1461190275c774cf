"""What all tests share."""

from hypothesis import settings

# How long an example takes says nothing: the first one may compile a kernel.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
