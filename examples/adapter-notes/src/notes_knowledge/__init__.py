"""A JSONL file of notes as a knowledge backend: `plugin` is found by the engine, `provider` does the work."""
