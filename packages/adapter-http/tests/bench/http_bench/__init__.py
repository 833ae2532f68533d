"""Servers and clients that the tests of HTTP share."""
