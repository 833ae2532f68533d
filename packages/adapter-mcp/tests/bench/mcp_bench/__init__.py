"""What the tests of this adapter share."""
