"""What a role needs before it starts, checked one by one, each finding with its remedy."""
