"""The console command ``companion``: list, run, check, accept, claim, simulate, data, doctor.

Nothing imports this package but the console script. Each command imports what it needs when it is called, so that
``companion --help`` answers at once.
"""

from attention_companion.cli.app import app

__all__ = ["app"]
