"""The wiring of a network: where nodes are placed, and the links between them."""
