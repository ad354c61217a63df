"""What a job needs, free of placement: graphs of layers (one module per model), recorded jobs, and messages."""
