"""What a training run came to: whether it worked, and how its checkpoint is fetched, served and published."""
