"""How a policy improves. Nothing in here knows what a level means or how it was chosen."""
