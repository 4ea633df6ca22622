"""Tables that commands read and write."""
