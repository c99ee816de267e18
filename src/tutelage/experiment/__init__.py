"""Running it: everything between a user and a finished study."""
