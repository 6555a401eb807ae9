"""What an un-windowed join of change streams costs, beside Flink SQL's."""
