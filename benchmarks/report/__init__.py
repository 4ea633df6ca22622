"""Result files in JSON, and the tables made from them."""
