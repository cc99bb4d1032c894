"""Tables printed at the terminal."""
