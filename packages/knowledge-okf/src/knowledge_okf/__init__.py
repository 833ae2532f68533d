"""Concept bundles in the Open Knowledge Format, made from documents and kept up to date."""
