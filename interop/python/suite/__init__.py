"""The interop scenarios of ../../scenarios.json by the Python SDK, synchronous and asynchronous."""
