"""Error classes and limits of Python, C++ and Java, made from ``registry_spec/codes.json`` and ``limits.json``.

What is generated is checked in, so that nobody needs the generator to build. Classes with behaviour of their own are
written by hand beside it; ``BY_HAND`` of each language names them.
"""
