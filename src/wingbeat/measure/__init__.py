"""Facts about runs: what was asked for, what was done, and what each cycle cost."""
