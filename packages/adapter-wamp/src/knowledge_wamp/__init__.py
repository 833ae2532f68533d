"""Knowledge over WAMP."""
