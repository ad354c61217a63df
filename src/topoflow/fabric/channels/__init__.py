"""Channels of collectives: ring orders and trees."""
