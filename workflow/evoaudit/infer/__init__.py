"""One engine for everything that asks a model: requests, providers, retries, journal, prices."""
