"""How a workload is spread over servers: rules that make a strategy (one module per config), and its kinds."""
