"""The built-in corpus: simulated applications, users and agents whose outcomes are known."""
