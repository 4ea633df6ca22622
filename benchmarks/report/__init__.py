"""Results as JSON, and the tables made of them."""
