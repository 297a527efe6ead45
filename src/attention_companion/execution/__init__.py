"""Running notebooks and keeping their results: projects, keys, guarded runs, and the road to the book.

Importing this package imports nothing else, so that a job pays only for the modules that it names.
"""
