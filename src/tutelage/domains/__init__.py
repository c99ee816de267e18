"""What agents train on: mazes and CarRacing. Nothing here depends on learning or curricula."""
