"""Kernels, ledger and machinery of a reproducible companion to three theory papers about attention.

Importing this package imports nothing else: each part is imported by its own name
(``attention_companion.sparse_xor``, ``.ntk``, ``.datasets``, ``.ledger``, ``.execution``, ``.plots``), so that a
result's key covers exactly the files that its notebook reaches.
"""

__version__ = "0.1.0"
