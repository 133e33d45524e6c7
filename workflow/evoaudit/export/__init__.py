"""What leaves: the probes as a data set and as tasks of other harnesses, the audit, and what says where all of it comes from."""
