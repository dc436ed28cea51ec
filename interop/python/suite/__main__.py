"""python -m suite [SCENARIO...] runs the named scenarios, or all, against the server of the environment."""

import asyncio
import sys

from . import access, batches, feeds, items, lifecycle, planned, queries, samples, tokens, topology  # noqa: F401  each adds its scenarios
from .scenario import run_all

sys.exit(1 if asyncio.run(run_all(sys.argv[1:])) else 0)
