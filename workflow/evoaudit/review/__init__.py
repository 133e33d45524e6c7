"""Pages on which people look at what a machine has made, and say what they think of it."""
