"""What outlives a process: SQL rows and objects."""
