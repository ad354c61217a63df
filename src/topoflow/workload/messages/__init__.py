"""Jobs without layers: ranks that compute for given times and send messages to each other."""
