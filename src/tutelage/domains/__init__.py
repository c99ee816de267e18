"""What agents train on: mazes and CarRacing. Nothing in here knows of learning or curricula."""
