"""The verdict audit: sample, signals, judges, review set and combination."""
