"""What a job needs, free of placement: graphs of layers (one module per model), and recorded jobs."""
