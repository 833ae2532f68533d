"""What stands inside text: plain words of a heading, links."""
