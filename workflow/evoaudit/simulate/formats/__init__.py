"""The native formats: each module turns one episode into the files and rows of its format."""
