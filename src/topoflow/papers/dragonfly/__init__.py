"""The tapered dragonfly: networks with few cables between groups, and the motifs that run on them."""
