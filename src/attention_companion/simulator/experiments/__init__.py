"""Experiments of the chapters on simulators: one module a topic, called by its notebook and tested like a kernel.

They build encoders, run programs, prove and count; each returns plain numbers that the notebook records.
"""
