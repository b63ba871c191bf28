"""Why: runs compared, a change taken apart, causes. Reads records; never measures and never loads torch."""
