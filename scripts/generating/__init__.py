"""What Python, C++, Java and the site take from ``registry_spec/``: errors and texts, limits, options, counters.

What is generated is checked in, so that nobody needs the generator to build. Classes with behaviour of their own are
written by hand beside it; ``BY_HAND`` of each language names them.
"""
