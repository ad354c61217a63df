"""FOSquare (Yan et al., Photonics 2021): fast optical switches within racks and between them."""
