"""Registers the scenarios of interop/scenarios.json by name, and runs them.

If a scenario ends the process, the report lacks it, and the runner counts it as failed.
"""

import asyncio
import os
import time
import traceback

from . import env

# CONCURRENT is the number of scenarios that run at the same time. LONGEST is the time limit of
# one scenario, in seconds.
CONCURRENT = 4
LONGEST = 120

_scenarios = {}


def scenario(name, *args):
    """Registers a coroutine function as the scenario of that name. It is called with a Run and args."""
    assert name not in _scenarios, f"two scenarios are called {name}"

    def add(function):
        _scenarios[name] = (function, args)
        return function

    return add


def _report(line):
    path = os.environ.get("CHANGEFEED_REPORT")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


async def _one(name, gate):
    function, args = _scenarios[name]
    async with gate:
        began = time.monotonic()
        try:
            async with asyncio.timeout(LONGEST), env.new_client() as client:
                run = env.Run(client)
                try:
                    await function(run, *args)
                finally:
                    await run.close()
        except Exception as err:  # a failure of any kind is reported
            traceback.print_exc()
            _report(f"{name}\tfailed\t{' '.join(f'{type(err).__name__}: {err}'.split())[:300]}")
            print(f"{name:24} {time.monotonic() - began:5.1f} s  failed", flush=True)
            return False
        _report(f"{name}\tok")
        print(f"{name:24} {time.monotonic() - began:5.1f} s  ok", flush=True)
        return True


async def run_all(names):
    """Runs the named scenarios, or all of them. It returns the number of failures."""
    for name in names:
        if name not in _scenarios:
            raise SystemExit(f"there is no scenario {name}")
    gate = asyncio.Semaphore(CONCURRENT)
    passed = await asyncio.gather(*(_one(name, gate) for name in names or _scenarios))
    print(f"{passed.count(True)} passed, {passed.count(False)} failed")
    return passed.count(False)
