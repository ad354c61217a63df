"""Jobs of messages alone: ranks that compute for given times and send to each other, without layers."""
