"""Language models for the knowledge kit, by name."""
