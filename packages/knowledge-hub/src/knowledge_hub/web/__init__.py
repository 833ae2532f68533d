"""The hub over HTTP: routes that an HTTP server takes in, and a panel for its page."""
