"""The command line, one module a subcommand: read files, call the library, write whole files or none."""
