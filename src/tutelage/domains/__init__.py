"""What is practised. Nothing in here knows of learning or of curricula."""
