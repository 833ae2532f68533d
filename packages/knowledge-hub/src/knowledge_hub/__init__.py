"""What agents learn: entries, feedback, search, and a slimmer hub."""
