"""Runs the scenarios of ../../scenarios.json with the Python SDK's synchronous or asynchronous client."""
