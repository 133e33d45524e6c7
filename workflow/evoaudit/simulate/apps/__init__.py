"""The six applications. Each module has ``APP``."""
