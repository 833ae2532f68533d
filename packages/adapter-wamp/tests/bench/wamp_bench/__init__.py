"""What the WAMP tests talk to: real routers, clients from outside, and links that break."""
