"""Experiments of the chapters on sparse XOR: one module a chapter, called by its notebook and tested like a kernel.

They draw starts, call the kernels of the package and count; each returns plain numbers that the notebook records.
"""
